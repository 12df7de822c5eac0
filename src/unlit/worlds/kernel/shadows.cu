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

// For so many rays of a pixel to a light a list of their own is worth making. A CPU asks several shapes at once anyway
// (near_ones), so that a few rays are quicker without.
#ifdef __CUDACC__
#define WORTH_A_LIST 0
#else
#define WORTH_A_LIST 12
#endif

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

