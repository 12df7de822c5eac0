// The renderer as one kernel: what path.py does, for a GPU (compiled at run time by NVRTC) and for a CPU (by a C++ compiler).
//
// A warp of LANES threads works on one pixel, each on every LANES-th sample, so that all its rays to a light start at one
// point and share the list of shapes that can be in their way. On a CPU a warp has one lane. Names and steps are those of
// intersection.py, terrain.py, sampling.py, emission.py and path.py, where the reasons are; tests/worlds/test_kernel.py
// holds the two to each other.
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
#define MOST_LIGHTS 16
#define SHAPE_FLOATS 24
#define HULL_FLOATS 12
#define LIGHT_FLOATS 20

enum { SPHERE, BOX, CYLINDER, CONE, QUAD, TERRAIN };
enum { LAMP, PANEL, SPOT, SUN, SKY };

typedef unsigned int Word;
typedef unsigned short Index;
typedef struct { float x, y, z; } V;

typedef struct {
  const float *shapes, *hulls, *lights, *heights, *sky, *sky_rows, *sky_columns;
  const Index *casters;
  float sky_total;
  int n, k, side, sky_side;
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

// ---- terrain (terrain.py)

FN float cell_root(float corner, float along_x, float along_y, float both, V p, V d, float length, float before) {
  float a = -d.x * d.y * both;
  float b = d.z - d.x * along_x - d.y * along_y - both * (p.x * d.y + p.y * d.x);
  float c = p.z - corner - p.x * along_x - p.y * along_y - p.x * p.y * both;
  float under = b * b - 4 * a * c;
  if (under < 0) return HUGE_T;
  float root = sqrtf(under);
  float q = -(b + (b >= 0 ? root : -root)) / 2;
  float one = q / divisor(a), two = c / divisor(q);
  float low = fminf(one, two), high = fmaxf(one, two);
  float slack = SLACK * length, least = -fminf(slack, before), most = length + slack;
  if (low > least && low <= most) return fmaxf(low, 0);
  if (high > least && high <= most) return fmaxf(high, 0);
  return HUGE_T;
}

FN void narrow(float o, float d, float low, float high, float *start, float *end) {
  float inverse = 1 / divisor(d), a = (low - o) * inverse, b = (high - o) * inverse;
  *start = fmaxf(*start, fminf(a, b));
  *end = fminf(*end, fmaxf(a, b));
}

BIG_FN float meet_terrain(const float *heights, int side, float lowest, float highest, V o, V d, float limit) {
  float start = 0, end = limit;
  narrow(o.x, d.x, -1, 1, &start, &end);
  narrow(o.y, d.y, -1, 1, &start, &end);
  narrow(o.z, d.z, lowest - SLACK, highest + SLACK, &start, &end);
  if (!(start < end)) return HUGE_T;
  float reach = (side - 1) * 0.5f;
  int last = side - 2;
  o = vec((o.x + 1) * reach, (o.y + 1) * reach, o.z);
  d = vec(divisor(d.x * reach), divisor(d.y * reach), divisor(d.z));
  float inverse_x = 1 / d.x, inverse_y = 1 / d.y, t = start;
  int column = (int)fminf(fmaxf(o.x + t * d.x, 0), (float)last), row = (int)fminf(fmaxf(o.y + t * d.y, 0), (float)last);
  for (int step = 0; step < 2 * last + 4; step++) {
    float leave_x = (column + (d.x > 0) - o.x) * inverse_x, leave_y = (row + (d.y > 0) - o.y) * inverse_y;
    float leave = fmaxf(fminf(fminf(leave_x, leave_y), end), t);
    const float *h = heights + row * side + column;
    float along_x = h[1] - h[0], along_y = h[side] - h[0];
    V p = vec(o.x + t * d.x - column, o.y + t * d.y - row, o.z + t * d.z);
    float root = cell_root(h[0], along_x, along_y, h[side + 1] - h[0] - along_x - along_y, p, d, leave - t, t);
    if (root < HUGE_T) return t + root;
    if (leave_x < leave_y) column += d.x > 0 ? 1 : -1; else row += d.y > 0 ? 1 : -1;
    if (!(leave < end) || column < 0 || column > last || row < 0 || row > last) return HUGE_T;
    t = leave;
  }
  return HUGE_T;
}

FN V terrain_normal(const float *heights, int side, V p) {
  float reach = (side - 1) * 0.5f, x = (p.x + 1) * reach, y = (p.y + 1) * reach;
  int last = side - 2;
  int column = (int)fminf(fmaxf(x, 0), (float)last), row = (int)fminf(fmaxf(y, 0), (float)last);
  const float *h = heights + row * side + column;
  float along_x = h[1] - h[0], along_y = h[side] - h[0], both = h[side + 1] - h[0] - along_x - along_y;
  return vec(-(along_x + (y - row) * both) * reach, -(along_y + (x - column) * both) * reach, 1);
}

// ---- shapes (intersection.py)

FN int kind_of(const float *shape) { return (int)shape[19]; }
FN V turned(const float *m, V v) { return vec(dot(at(m), v), dot(at(m + 4), v), dot(at(m + 8), v)); }
FN V placed(const float *m, V v) { return add(turned(m, v), vec(m[3], m[7], m[11])); }

FN float first(float enter, float leave) {
  float t = enter > 0 ? enter : leave;
  return enter <= leave && t > 0 ? t : HUGE_T;
}

FN float meet_sphere(V o, V d) {
  float inverse = 1 / dot(d, d), middle = -dot(o, d) * inverse;
  V p = add(o, scaled(d, middle));
  float inside = (1 - dot(p, p)) * inverse;
  if (inside < 0) return HUGE_T;
  float half = sqrtf(inside);
  return first(middle - half, middle + half);
}

FN float meet_box(V o, V d) {
  float enter = -HUGE_T, leave = HUGE_T;
  narrow(o.x, d.x, -1, 1, &enter, &leave);
  narrow(o.y, d.y, -1, 1, &enter, &leave);
  narrow(o.z, d.z, -1, 1, &enter, &leave);
  return first(enter, leave);
}

FN float meet_cylinder(V o, V d) {
  float enter = -HUGE_T, leave = HUGE_T;
  narrow(o.z, d.z, -1, 1, &enter, &leave);
  float inverse = 1 / fmaxf(d.x * d.x + d.y * d.y, TINY), middle = -(o.x * d.x + o.y * d.y) * inverse;
  float x = o.x + middle * d.x, y = o.y + middle * d.y, inside = 1 - (x * x + y * y);
  if (inside < 0) return HUGE_T;
  float half = sqrtf(inside * inverse);
  return first(fmaxf(enter, middle - half), fminf(leave, middle + half));
}

FN float meet_cone(V o, V d) {
  float enter = -HUGE_T, leave = HUGE_T;
  narrow(o.z, d.z, -1, 1, &enter, &leave);
  float above = 1 - o.z;
  float a = divisor(d.x * d.x + d.y * d.y - d.z * d.z * 0.25f);
  float b = o.x * d.x + o.y * d.y + above * d.z * 0.25f, c = o.x * o.x + o.y * o.y - above * above * 0.25f;
  float under = b * b - a * c;
  if (under < 0 && a > 0) return HUGE_T;
  float root = sqrtf(fmaxf(under, 0)), q = -b - (b >= 0 ? root : -root);
  float one = q / a, two = c / divisor(q), low = fminf(one, two), high = fmaxf(one, two);
  float start = a > 0 ? low : d.z > 0 ? -HUGE_T : high, end = a > 0 ? high : d.z > 0 ? low : HUGE_T;
  return first(fmaxf(enter, start), fminf(leave, end));
}

FN float meet_quad(const float *m, V o, V d) {
  float height = dot(at(m + 8), o) + m[11], t = -height / divisor(dot(at(m + 8), d));
  if (!(t > 0)) return HUGE_T;
  V p = add(o, scaled(d, t));
  return fabsf(dot(at(m), p) + m[3]) <= 1 && fabsf(dot(at(m + 4), p) + m[7]) <= 1 ? t : HUGE_T;
}

// Whether a ray of unit direction can meet the ball around a shape before `limit`.
FN int near_ball(const float *shape, V o, V d, float limit) {
  V to = sub(at(shape + 12), o);
  float along = dot(to, d), radius = shape[15];
  V beside = sub(to, scaled(d, along));
  return dot(beside, beside) <= radius * radius && along >= -radius && along <= limit + radius;
}

// The distance at which a ray meets shape i; beyond `limit` it may be anything that is no less.
FN float meet(const Scene *scene, int i, V o, V d, float limit) {
  const float *shape = scene->shapes + i * SHAPE_FLOATS;
  int kind = kind_of(shape);
  if (kind == QUAD) return meet_quad(shape, o, d);
  if (!near_ball(shape, o, d, limit)) return HUGE_T;
  V p = placed(shape, o), q = turned(shape, d);
  if (kind == BOX) return meet_box(p, q);
  if (kind == SPHERE) return meet_sphere(p, q);
  if (kind == CYLINDER) return meet_cylinder(p, q);
  if (kind == CONE) return meet_cone(p, q);
  const float *heights = scene->heights + (int)shape[20] * scene->side * scene->side;
  return meet_terrain(heights, scene->side, shape[21], shape[22], p, q, limit);
}

FN V object_normal(const Scene *scene, const float *shape, V p) {
  int kind = kind_of(shape);
  float radius = sqrtf(p.x * p.x + p.y * p.y);
  if (kind == SPHERE) return p;
  if (kind == QUAD) return vec(0, 0, 1);
  if (kind == CYLINDER) return fabsf(p.z) > radius ? vec(0, 0, sign_of(p.z)) : vec(p.x, p.y, 0);
  if (kind == CONE) return p.z + 1 < (1 - p.z) * 0.5f - radius ? vec(0, 0, -1) : vec(p.x, p.y, radius * 0.5f);
  if (kind == BOX) {
    float x = fabsf(p.x), y = fabsf(p.y), z = fabsf(p.z);
    return x >= y && x >= z ? vec(sign_of(p.x), 0, 0) : y >= z ? vec(0, sign_of(p.y), 0) : vec(0, 0, sign_of(p.z));
  }
  return terrain_normal(scene->heights + (int)shape[20] * scene->side * scene->side, scene->side, p);
}

FN V world_normal(const float *m, V n) {
  V t = add(add(scaled(at(m), n.x), scaled(at(m + 4), n.y)), scaled(at(m + 8), n.z));
  return scaled(t, 1 / fmaxf(sqrtf(dot(t, t)), TINY));
}

// `list` may be 0: then all shapes are looked at.
FN float nearest(const Scene *scene, const Index *list, int count, V o, V d, int *which) {
  float best = HUGE_T;
  *which = -1;
  for (int j = 0; j < count; j++) {
    int i = list ? list[j] : j;
    float t = meet(scene, i, o, d, best);
    if (t < best) { best = t; *which = i; }
  }
  return best;
}

FN int blocked(const Scene *scene, const Index *list, int count, V o, V d, float limit) {
  for (int j = 0; j < count; j++)
    if (meet(scene, list[j], o, d, limit) < limit) return 1;
  return 0;
}

FN V lifted(V p, V n) {
  float most = fmaxf(fmaxf(fabsf(p.x), fabsf(p.y)), fabsf(p.z));
  return add(p, scaled(n, LIFT + 0.1f * LIFT * most));
}

// ---- lights (emission.py); a light is kind, position, direction, edge_u, edge_v, face, radiance, radius, two of its own

FN float sky_radiance(const Scene *scene, V d) {
  int s = scene->sky_side;
  int row = (int)(safe_acos(d.z) * (s / PI));
  float turn = atan2f(d.y, d.x) / (2 * PI);
  int column = (int)((turn - floorf(turn)) * (2 * s));
  return scene->sky[(row < s ? row : s - 1) * 2 * s + (column < 2 * s ? column : 2 * s - 1)];
}

FN float chosen(const float *shares, int count, float u, int *index) {
  int low = 0, high = count - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (shares[middle] > u) high = middle; else low = middle + 1;
  }
  float start = low > 0 ? shares[low - 1] : 0;
  *index = low;
  return fminf(fmaxf((u - start) / fmaxf(shares[low] - start, TINY), 0), 1);
}

BIG_FN V bright_direction(const Scene *scene, float u, float v) {
  int s = scene->sky_side, row, column;
  float along_row = chosen(scene->sky_rows, s, u, &row);
  float along_column = chosen(scene->sky_columns + row * 2 * s, 2 * s, v, &column);
  float top = cosf(row * (PI / s)), bottom = cosf((row + 1) * (PI / s)), z = top + along_row * (bottom - top);
  float sine = sqrtf(fmaxf(1 - z * z, 0)), angle = (column + along_column) * (PI / s);
  return vec(sine * cosf(angle), sine * sinf(angle), z);
}

FN Sampled sample_sky(const Scene *scene, const float *light, V normal, float u, float v) {
  Sampled r;
  r.direction = u < 0.5f ? cosine_direction(normal, 2 * u, v) : bright_direction(scene, 2 * u - 1, v);
  r.distance = HUGE_T;
  float shine = sky_radiance(scene, r.direction);
  float density = (fmaxf(dot(r.direction, normal), 0) / PI + shine / fmaxf(scene->sky_total, 1e-30f)) / 2;
  r.weight = light[16] * shine / fmaxf(density * PI, TINY);
  return r;
}

// rectangle.py: a point of the rectangle [x0, x1] x [y0, y1] at height z, and its solid angle.
FN float rectangle_point(float x0, float x1, float y0, float y1, float z, float u, float v, float *x, float *y) {
  float n0 = -y0 / sqrtf(z * z + y0 * y0), n2 = y1 / sqrtf(z * z + y1 * y1);
  float n1 = x1 / sqrtf(z * z + x1 * x1), n3 = -x0 / sqrtf(z * z + x0 * x0);
  float k = 2 * PI - safe_acos(-n2 * n3) - safe_acos(-n3 * n0);
  float solid = fmaxf(safe_acos(-n0 * n1) + safe_acos(-n1 * n2) - k, 0);
  float turn = u * solid + k;
  float f = (accurate_cos(turn) * n0 - n2) / divisor(accurate_sin(turn));
  float c = fminf(fmaxf((f > 0 ? 1.0f : -1.0f) / sqrtf(fmaxf(f * f + n0 * n0, TINY)), -1), 1);
  *x = fminf(fmaxf(c * z / sqrtf(fmaxf(1 - c * c, TINY)), x0), x1);
  float across2 = *x * *x + z * z, h0 = y0 / sqrtf(across2 + y0 * y0), h1 = y1 / sqrtf(across2 + y1 * y1);
  float h = h0 + v * (h1 - h0);
  *y = fminf(fmaxf(h * sqrtf(across2) / sqrtf(fmaxf(1 - h * h, TINY)), y0), y1);
  return solid;
}

BIG_FN Sampled sample_near_panel(const float *light, V center, float u, float v) {
  Sampled r;
  V edge_u = at(light + 7), edge_v = at(light + 10);
  float half_u = sqrtf(dot(edge_u, edge_u)), half_v = sqrtf(dot(edge_v, edge_v));
  V axis_u = scaled(edge_u, 1 / half_u), axis_v = scaled(edge_v, 1 / half_v);
  V axis = scaled(at(light + 13), 1 / (4 * half_u * half_v));
  float x = dot(center, axis_u), y = dot(center, axis_v), z = dot(center, axis);
  float solid = rectangle_point(x - half_u, x + half_u, y - half_v, y + half_v, fmaxf(-z, 1e-6f), u, v, &x, &y);
  V to = add(add(scaled(axis_u, x), scaled(axis_v, y)), scaled(axis, z));
  r.distance = sqrtf(fmaxf(dot(to, to), 1e-12f));
  r.direction = scaled(to, 1 / r.distance);
  r.weight = -z > 1e-6f ? light[16] * solid / PI : 0;
  return r;
}

FN Sampled sample_panel(const float *light, V point, float u, float v) {
  V center = sub(at(light + 1), point);
  if (dot(center, center) < light[19]) return sample_near_panel(light, center, u, v);
  Sampled r;
  V to = add(add(center, scaled(at(light + 7), 2 * u - 1)), scaled(at(light + 10), 2 * v - 1));
  float far2 = fmaxf(dot(to, to), 1e-12f);
  r.distance = sqrtf(far2);
  r.direction = scaled(to, 1 / r.distance);
  r.weight = light[16] * fmaxf(-dot(to, at(light + 13)), 0) / (r.distance * far2 * PI);
  return r;
}

FN Sampled sample_lamp(const float *light, V point, float u, float v) {
  Sampled r;
  V to = sub(at(light + 1), point);
  float far2 = fmaxf(dot(to, to), 1e-12f), radius2 = square(light[17]), sine2 = fminf(radius2 / far2, 1);
  float width = sine2 / (1 + sqrtf(1 - sine2));
  r.direction = cone_direction(scaled(to, 1 / sqrtf(far2)), width, u, v);
  float along = dot(to, r.direction);
  r.distance = fmaxf(along - sqrtf(fmaxf(radius2 - (far2 - along * along), 0)), 0);
  r.weight = 2 * width * light[16];
  if ((int)light[0] == SPOT) {
    float cosine = -dot(to, at(light + 4)) / fmaxf(sqrtf(dot(to, to)), 1e-6f);
    float share = fminf(fmaxf((cosine - light[18]) * light[19], 0), 1);
    r.weight *= share * share * (3 - 2 * share);
  }
  return r;
}

FN Sampled sample_light(const Scene *scene, const float *light, const Surface *s, float u, float v) {
  int kind = (int)light[0];
  if (kind == SKY) return sample_sky(scene, light, s->normal, u, v);
  if (kind == PANEL) return sample_panel(light, s->position, u, v);
  if (kind == SUN) {
    Sampled r = {cone_direction(scaled(at(light + 4), -1), light[18], u, v), HUGE_T, 2 * light[18] * light[16]};
    return r;
  }
  return sample_lamp(light, s->position, u, v);
}

// What arrives from one point of a light, if none of `list` is in its way (path.py).
FN float arriving(const Scene *scene, int light, const Surface *s, const Index *list, int count, float u, float v) {
  Sampled r = sample_light(scene, scene->lights + light * LIGHT_FLOATS, s, u, v);
  float arrived = r.weight * dot(r.direction, s->normal);
  if (!(arrived > 0) || !(dot(r.direction, s->geometric) > 0)) return 0;
  return blocked(scene, list, count, s->position, r.direction, r.distance) ? 0 : arrived;
}

// ---- which shapes can be in the way of rays from one point

// How far a shape reaches along `n` from its center.
FN float support(int kind, const float *hull, const float *shape, V n) {
  float x = dot(at(hull), n), y = dot(at(hull + 3), n), z = dot(at(hull + 6), n);
  if (kind == SPHERE) return sqrtf(x * x + y * y + z * z);
  if (kind == CYLINDER) return sqrtf(x * x + y * y) + fabsf(z);
  if (kind == CONE) return fmaxf(z, sqrtf(x * x + y * y) - z);
  if (kind == QUAD) return fabsf(x) + fabsf(y);
  if (kind == TERRAIN) return fabsf(x) + fabsf(y) + fmaxf(z * shape[21], z * shape[22]);
  return fabsf(x) + fabsf(y) + fabsf(z);
}

// Whether anything of shape i lies above the plane through `p` with normal `n`.
FN int above(const Scene *scene, int i, V p, V n) {
  const float *hull = scene->hulls + i * HULL_FLOATS, *shape = scene->shapes + i * SHAPE_FLOATS;
  return dot(sub(at(hull + 9), p), n) + support(kind_of(shape), hull, shape, n) > 0;
}

// Where the rays from a point to a light go: within a cone, up to a distance, ending in a ball.
typedef struct { V axis, center; float sine, cosine, distance, radius; int endless, any; } Beam;

FN Beam beam(const float *light, V p) {
  int kind = (int)light[0];
  Beam b;
  b.endless = kind == SUN;
  b.any = kind == SKY;
  b.center = at(light + 1);
  b.axis = scaled(at(light + 4), -1);
  b.radius = kind == PANEL ? light[18] : light[17];
  b.distance = HUGE_T;
  b.sine = sqrtf(fmaxf(light[18] * (2 - light[18]), 0));  // a sun's: light[18] is one minus its cosine
  b.cosine = 1 - light[18];
  if (b.endless || b.any) return b;
  V to = sub(b.center, p);
  float far = sqrtf(fmaxf(dot(to, to), 1e-12f));
  b.any = far <= b.radius * 1.001f;
  b.axis = scaled(to, 1 / far);
  b.distance = far + b.radius;
  b.sine = fminf(b.radius / far, 1);
  b.cosine = sqrtf(1 - b.sine * b.sine);
  return b;
}

// Whether one side of the shape's own box has both the point and the whole light beyond it.
FN int parted(const Beam *b, const float *row, float offset, V p, float low, float high) {
  float here = dot(at(row), p) + offset, length = sqrtf(dot(at(row), at(row))) * 1.001f;
  // Beyond a slack in favor of being in the way.
  float there = b->endless ? dot(at(row), b->axis) : dot(at(row), b->center) + offset;
  float reach = length * (b->endless ? b->sine + 1e-5f : b->radius + LIFT);
  if (here > high) return there - reach > (b->endless ? 0 : high);
  if (here < low) return there + reach < (b->endless ? 0 : low);
  return 0;
}

FN int in_beam(const Scene *scene, int i, const Beam *b, V p) {
  if (b->any) return 1;
  const float *shape = scene->shapes + i * SHAPE_FLOATS;
  int kind = kind_of(shape);
  V to = sub(at(shape + 12), p);
  float along = dot(to, b->axis), radius = shape[15];
  V beside = sub(to, scaled(b->axis, along));
  if (along < -radius || along > b->distance + radius) return 0;
  if (sqrtf(dot(beside, beside)) * b->cosine - along * b->sine > radius + LIFT) return 0;
  float low = kind == QUAD ? 0 : kind == TERRAIN ? shape[21] : -1, high = kind == QUAD ? 0 : kind == TERRAIN ? shape[22] : 1;
  return !parted(b, shape, shape[3], p, -1, 1) && !parted(b, shape + 4, shape[7], p, -1, 1) &&
         !parted(b, shape + 8, shape[11], p, low, high);
}

#ifdef __CUDACC__
#define LANE ((int)(threadIdx.x & 31))
FN float lane_sum(float x) {
  for (int step = 16; step; step >>= 1) x += __shfl_xor_sync(0xFFFFFFFFu, x, step);
  return x;
}
// Add shape i to the list of the warp where `wanted`, in the order of the lanes.
FN int append(Index *list, int count, int i, int wanted) {
  unsigned int votes = __ballot_sync(0xFFFFFFFFu, wanted);
  if (wanted) list[count + __popc(votes & ((1u << LANE) - 1))] = (Index)i;
  return count + __popc(votes);
}
#define LIST_DONE __syncwarp()
#else
#define LANE 0
#define lane_sum(x) (x)
FN int append(Index *list, int count, int i, int wanted) {
  if (wanted) list[count++] = (Index)i;
  return count;
}
#define LIST_DONE
#endif

FN int list_above(const Scene *scene, Index *list, V p, V n) {
  int count = 0;
  for (int base = 0; base < scene->n; base += LANES) {
    int i = base + LANE;
    count = append(list, count, i, i < scene->n && above(scene, i, p, n));
  }
  LIST_DONE;
  return count;
}

FN int list_in_beam(const Scene *scene, const Index *from, int many, Index *list, int light, V p) {
  Beam b = beam(scene->lights + light * LIGHT_FLOATS, p);
  int count = 0;
  LIST_DONE;  // all lanes are through with the list of the light before
  for (int base = 0; base < many; base += LANES) {
    int j = base + LANE, i = j < many ? from[j] : 0;
    count = append(list, count, i, j < many && in_beam(scene, i, &b, p));
  }
  LIST_DONE;
  return count;
}

// ---- one pixel

typedef struct { int samples, paths, bounces, first_light; Word steps2[2], steps4[4]; } Settings;

// Add what one path brings, of every light, to `sums` (k, 3). `list` holds the shapes above the first surface.
FN void follow(const Scene *scene, const Settings *set, Surface s, Word key, int path, const Index *list, int count, float *sums) {
  V carried = vec(1, 1, 1);
  for (int bounce = 0; bounce < set->bounces; bounce++) {
    float u = unit(path_word(key, path, bounce, 0, set->steps4[0]));
    float v = unit(path_word(key, path, bounce, 1, set->steps4[1]));
    V d = cosine_direction(s.normal, u, v);
    if (!(dot(d, s.geometric) > 0)) return;
    int which;
    float t = nearest(scene, bounce ? 0 : list, bounce ? scene->n : count, s.position, d, &which);
    if (which < 0) return;
    const float *shape = scene->shapes + which * SHAPE_FLOATS;
    V p = add(s.position, scaled(d, t));
    V n = world_normal(shape, object_normal(scene, shape, placed(shape, p)));
    if (dot(n, d) > 0) n = scaled(n, -1);
    s.position = lifted(p, n), s.geometric = n, s.normal = n;
    carried = vec(carried.x * shape[16], carried.y * shape[17], carried.z * shape[18]);
    Word one = path_word(key, path, bounce, 2, set->steps4[2]), two = path_word(key, path, bounce, 3, set->steps4[3]);
    for (int light = 0; light < scene->k; light++) {
      const Index *casters = scene->casters + light * (scene->n + 1);
      Word number = (Word)(light + set->first_light);
      float arrived = arriving(scene, light, &s, casters + 1, casters[0], unit(one + number * set->steps2[0]),
                               unit(two + number * set->steps2[1]));
      sums[3 * light] += carried.x * arrived;
      sums[3 * light + 1] += carried.y * arrived;
      sums[3 * light + 2] += carried.z * arrived;
    }
  }
}

FN void shade(const Scene *scene, const Settings *set, Surface s, Word key, Index *list, Index *beam_list, float *out, int stride) {
  float sums[3 * MOST_LIGHTS];
  for (int i = 0; i < 3 * scene->k; i++) sums[i] = 0;
  int count = list_above(scene, list, s.position, s.geometric);
  for (int path = LANE; set->bounces && path < set->paths; path += LANES)
    follow(scene, set, s, key, path, list, count, sums);
  for (int light = 0; light < scene->k; light++) {
    int many = list_in_beam(scene, list, count, beam_list, light, s.position);
    int number = light + set->first_light;
    Word one = shift(key, 2 * number), two = shift(key, 2 * number + 1);
    float direct = 0;
    for (int i = LANE; i < set->samples; i += LANES)
      direct += arriving(scene, light, &s, beam_list, many, unit((Word)i * set->steps2[0] + one), unit((Word)i * set->steps2[1] + two));
    direct = lane_sum(direct) / set->samples;
    for (int c = 0; c < 3; c++) {
      float bounced = lane_sum(sums[3 * light + c]) / (set->paths > 0 ? set->paths : 1);
      if (LANE == 0) out[(3 * light + c) * stride] = direct + bounced;
    }
  }
}

FN V plane_vector(const float *planes, int stride, int i) { return vec(planes[i], planes[stride + i], planes[2 * stride + i]); }

FN void shade_pixel(const Scene *scene, const Settings *set, int seed, int pixel, int pixels, const float *points,
                    const float *normals, const float *shaded, Index *list, Index *beam_list, float *result) {
  V normal = plane_vector(normals, pixels, pixel);
  Surface s = {lifted(plane_vector(points, pixels, pixel), normal), normal, plane_vector(shaded, pixels, pixel)};
  Word key = mixed(mixed((Word)seed) + (Word)pixel * GOLDEN);
  shade(scene, set, s, key, list, beam_list, result + pixel, pixels);
}

// ---- one ray: what it meets, and there position and normal in the world and in the shape's own space

FN void put(float *planes, int stride, int i, V v) { planes[i] = v.x, planes[stride + i] = v.y, planes[2 * stride + i] = v.z; }

FN void see(const Scene *scene, int ray, int rays, const float *origins, const float *directions, float *distance,
            int *index, float *vectors) {
  V o = plane_vector(origins, rays, ray), d = plane_vector(directions, rays, ray);
  int which;
  float t = nearest(scene, 0, scene->n, o, d, &which);
  distance[ray] = t, index[ray] = which;
  if (which < 0) return;
  const float *shape = scene->shapes + which * SHAPE_FLOATS;
  V p = add(o, scaled(d, t)), inner = placed(shape, p), inner_normal = object_normal(scene, shape, inner);
  V normal = world_normal(shape, inner_normal);
  if (dot(normal, d) > 0) normal = scaled(normal, -1);
  put(vectors, rays, ray, p);
  put(vectors + 3 * rays, rays, ray, normal);
  put(vectors + 6 * rays, rays, ray, inner);
  put(vectors + 9 * rays, rays, ray, inner_normal);
}

// ---- entrances; `sizes` are n, k, side, sky_side, pixels, samples, paths, bounces, seed, first_light, and the six steps

FN Scene scene_of(const float *shapes, const float *hulls, const float *lights, const Index *casters, const float *heights,
                  const float *sky, const int *sizes) {
  Scene s;
  int side = sizes[3];
  s.shapes = shapes, s.hulls = hulls, s.lights = lights, s.casters = casters, s.heights = heights;
  s.sky_total = sky[0];
  s.sky_rows = sky + 1;
  s.sky_columns = s.sky_rows + side;
  s.sky = s.sky_columns + 2 * side * side;
  s.n = sizes[0], s.k = sizes[1], s.side = sizes[2], s.sky_side = side;
  return s;
}

FN Scene bare_scene(const float *shapes, const float *heights, const int *sizes) {
  Scene s = {shapes, 0, 0, heights, 0, 0, 0, 0, 0, sizes[0], 0, sizes[2], 0};
  return s;
}

FN Settings settings_of(const int *sizes) {
  Settings s;
  s.samples = sizes[5], s.paths = sizes[6], s.bounces = sizes[7], s.first_light = sizes[9];
  for (int i = 0; i < 2; i++) s.steps2[i] = (Word)sizes[10 + i];
  for (int i = 0; i < 4; i++) s.steps4[i] = (Word)sizes[12 + i];
  return s;
}

#ifdef __CUDACC__
extern "C" __global__ void __launch_bounds__(BLOCK) unlit_irradiance(
    const float *shapes, const float *hulls, const float *lights, const Index *casters, const float *heights,
    const float *sky, const int *sizes, const float *points, const float *normals, const float *shaded,
    const unsigned char *mask, float *result) {
  extern __shared__ float own[];
  int n = sizes[0], k = sizes[1];
  float *own_shapes = own, *own_lights = own_shapes + n * SHAPE_FLOATS;
  Index *own_casters = (Index *)(own_lights + k * LIGHT_FLOATS), *lists = own_casters + k * (n + 1);
  for (int i = threadIdx.x; i < n * SHAPE_FLOATS; i += BLOCK) own_shapes[i] = shapes[i];
  for (int i = threadIdx.x; i < k * LIGHT_FLOATS; i += BLOCK) own_lights[i] = lights[i];
  for (int i = threadIdx.x; i < k * (n + 1); i += BLOCK) own_casters[i] = casters[i];
  __syncthreads();
  int pixels = sizes[4], warp = threadIdx.x / LANES, pixel = blockIdx.x * (BLOCK / LANES) + warp;
  if (pixel >= pixels || !mask[pixel]) return;
  Scene scene = scene_of(own_shapes, hulls, own_lights, own_casters, heights, sky, sizes);
  Settings set = settings_of(sizes);
  Index *list = lists + 2 * n * warp;
  shade_pixel(&scene, &set, sizes[8], pixel, pixels, points, normals, shaded, list, list + n, result);
}

extern "C" __global__ void __launch_bounds__(BLOCK) unlit_hits(
    const float *shapes, const float *heights, const int *sizes, const float *origins, const float *directions,
    float *distance, int *index, float *vectors) {
  extern __shared__ float own[];
  int n = sizes[0], rays = sizes[4], ray = blockIdx.x * BLOCK + threadIdx.x;
  for (int i = threadIdx.x; i < n * SHAPE_FLOATS; i += BLOCK) own[i] = shapes[i];
  __syncthreads();
  Scene scene = bare_scene(own, heights, sizes);
  if (ray < rays) see(&scene, ray, rays, origins, directions, distance, index, vectors);
}
#else
extern "C" void unlit_irradiance(const float *shapes, const float *hulls, const float *lights, const Index *casters,
                                 const float *heights, const float *sky, const int *sizes, const float *points,
                                 const float *normals, const float *shaded, const unsigned char *mask, float *result,
                                 Index *lists, int first, int last) {
  Scene scene = scene_of(shapes, hulls, lights, casters, heights, sky, sizes);
  Settings set = settings_of(sizes);
  for (int pixel = first; pixel < last; pixel++)
    if (mask[pixel])
      shade_pixel(&scene, &set, sizes[8], pixel, sizes[4], points, normals, shaded, lists, lists + sizes[0], result);
}

extern "C" void unlit_hits(const float *shapes, const float *heights, const int *sizes, const float *origins,
                           const float *directions, float *distance, int *index, float *vectors, int first, int last) {
  Scene scene = bare_scene(shapes, heights, sizes);
  for (int ray = first; ray < last; ray++)
    see(&scene, ray, sizes[4], origins, directions, distance, index, vectors);
}
#endif
