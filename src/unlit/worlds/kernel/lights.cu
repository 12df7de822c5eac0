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

