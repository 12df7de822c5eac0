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

// Which of `list`, or of all shapes where it is 0, may be met by a ray; the lanes of a GPU ask each shape anyway.
#ifdef __CUDACC__
#define NEAR_ONES(list, count, limit)
#else
FN int near_ones(const Scene *scene, const Index *list, int count, V o, V d, float limit, Index *found) {
  const Balls *b = scene->balls;
  int is_near[MOST_SHAPES], many = 0;
  for (int i = 0; i < scene->n; i++) {  // near_ball, for several at once
    float x = b->x[i] - o.x, y = b->y[i] - o.y, z = b->z[i] - o.z, radius = b->radius[i];
    float along = x * d.x + y * d.y + z * d.z;
    float beside_x = x - d.x * along, beside_y = y - d.y * along, beside_z = z - d.z * along;
    float beside2 = beside_x * beside_x + beside_y * beside_y + beside_z * beside_z;
    is_near[i] = (beside2 <= radius * radius) & (along >= -radius) & (along <= limit + radius);
  }
  for (int j = 0; j < count; j++) {  // without a branch, which nobody could foresee
    int i = list ? list[j] : j;
    found[many] = (Index)i;
    many += is_near[i];
  }
  return many;
}
#define NEAR_ONES(list, count, limit)                              \
  Index found[MOST_SHAPES];                                        \
  count = near_ones(scene, list, count, o, d, limit, found);       \
  list = found;
#endif

// `list` may be 0: then all shapes are looked at.
FN float nearest(const Scene *scene, const Index *list, int count, V o, V d, int *which) {
  float best = HUGE_T;
  *which = -1;
  NEAR_ONES(list, count, HUGE_T)
  for (int j = 0; j < count; j++) {
    int i = list ? list[j] : j;
    float t = meet(scene, i, o, d, best);
    if (t < best) { best = t; *which = i; }
  }
  return best;
}

FN int blocked(const Scene *scene, const Index *list, int count, V o, V d, float limit) {
  NEAR_ONES(list, count, limit)
  for (int j = 0; j < count; j++)
    if (meet(scene, list[j], o, d, limit) < limit) return 1;
  return 0;
}

FN V lifted(V p, V n) {
  float most = fmaxf(fmaxf(fabsf(p.x), fabsf(p.y)), fabsf(p.z));
  return add(p, scaled(n, LIFT + 0.1f * LIFT * most));
}

