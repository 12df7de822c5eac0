// The renderer as one kernel: what path.py does, for a GPU (compiled at run time by NVRTC) and for a CPU (by a C++ compiler).
//
// A warp of LANES threads works on one pixel, each on every LANES-th sample, so that all its rays to a light start at one
// point and share the list of shapes that can be in their way. On a CPU a warp has one lane. Names and steps are those of
// intersection.py, terrain.py, sampling.py, emission.py and path.py, where the reasons are; tests/worlds/test_kernel.py
// holds the two to each other.
//
// The source is one text in parts, which render_kernel.py joins in this order: numbers.cu, shapes.cu, lights.cu,
// shadows.cu, pixel.cu. Each uses what those before it define.
//
// It puts MOST_LIGHTS and MOST_SHAPES before them.
//
// render_packing.py lays out the arrays: `shapes` (n, 24), `hulls` (n, 12), `lights` (k, 20), `casters` (k, n + 1).

#ifdef __CUDACC__
#define FN static __device__ __forceinline__
#define BIG_FN static __device__ __noinline__
#define LANES 32
#define BLOCK 128
#define HUGE_T 3.0e38f
#else
#include <math.h>
#define FN static inline
#define BIG_FN static
#define LANES 1
#define HUGE_T 3.0e38f
#endif

#define TINY 1e-20f
#define SLACK 1e-5f
#define LIFT 1e-4f
#define PI 3.14159265358979f
#define GOLDEN 0x9E3779B9u
#define SHAPE_FLOATS 24
#define HULL_FLOATS 12
#define LIGHT_FLOATS 20

enum { SPHERE, BOX, CYLINDER, CONE, QUAD, TERRAIN };
enum { LAMP, PANEL, SPOT, SUN, SKY };

typedef unsigned int Word;
typedef unsigned short Index;
typedef struct { float x, y, z; } V;

// The balls around shapes side by side: a processor compares a ray with several at once. A GPU has no use for it.
typedef struct { float x[MOST_SHAPES], y[MOST_SHAPES], z[MOST_SHAPES], radius[MOST_SHAPES]; } Balls;

typedef struct {
  const float *shapes, *hulls, *lights, *heights, *sky, *sky_rows, *sky_columns;
  const Index *casters;
  float sky_total;
  int n, k, side, sky_side;
#ifndef __CUDACC__
  const Balls *balls;
#endif
} Scene;

typedef struct { V position, geometric, normal; } Surface;
typedef struct { V direction; float distance, weight; } Sampled;

FN V vec(float x, float y, float z) { V v = {x, y, z}; return v; }
FN V add(V a, V b) { return vec(a.x + b.x, a.y + b.y, a.z + b.z); }
FN V sub(V a, V b) { return vec(a.x - b.x, a.y - b.y, a.z - b.z); }
FN V scaled(V a, float s) { return vec(a.x * s, a.y * s, a.z * s); }
FN float dot(V a, V b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
FN V at(const float *p) { return vec(p[0], p[1], p[2]); }
FN float sign_of(float x) { return x < 0 ? -1.0f : 1.0f; }
FN float square(float x) { return x * x; }
FN float safe_acos(float x) { return acosf(fminf(fmaxf(x, -1), 1)); }
// Fast mathematics makes sinf and cosf coarse; where two large numbers are subtracted that is too coarse.
#ifdef __CUDACC__
FN float accurate_sin(float x) { return sinpif(x * (1 / PI)); }
FN float accurate_cos(float x) { return cospif(x * (1 / PI)); }
#else
FN float accurate_sin(float x) { return sinf(x); }
FN float accurate_cos(float x) { return cosf(x); }
#endif
FN float divisor(float x) { return fabsf(x) < TINY ? TINY : x; }

// ---- numbers (sampling.py)

FN Word mixed(Word x) {
  x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
  x = (x ^ (x >> 13)) * 0xC2B2AE35u;
  return x ^ (x >> 16);
}

FN Word shift(Word key, int stream) { return mixed(key + (Word)stream * GOLDEN); }
FN float unit(Word x) { return (float)(x >> 8) * 5.9604644775390625e-8f; }

FN Word path_word(Word key, int path, int bounce, int i, Word step) {
  Word moved = shift(key, -1 - 4 * bounce - i);
  return bounce == 0 ? (Word)path * step + moved : mixed(moved + (Word)path * GOLDEN);
}

FN V around(V axis, float sine, float cosine, float v) {
  float sign = axis.z >= 0 ? 1.0f : -1.0f;
  float a = -1.0f / (sign + axis.z), b = axis.x * axis.y * a;
  V one = vec(1 + sign * axis.x * axis.x * a, sign * b, -sign * axis.x);
  V two = vec(b, sign + axis.y * axis.y * a, -axis.y);
  float c, s;
#ifdef __CUDACC__
  sincospif(2 * v, &s, &c);
#else
  c = cosf(2 * PI * v), s = sinf(2 * PI * v);
#endif
  return add(add(scaled(one, sine * c), scaled(two, sine * s)), scaled(axis, cosine));
}

FN V cosine_direction(V normal, float u, float v) { return around(normal, sqrtf(u), sqrtf(1 - u), v); }

FN V cone_direction(V axis, float width, float u, float v) {
  float drop = u * width;
  return around(axis, sqrtf(fmaxf(drop * (2 - drop), 0)), 1 - drop, v);
}

