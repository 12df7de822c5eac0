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
    const Index *in_way = list;
    int many = count;
    if (set->samples >= WORTH_A_LIST) {
      in_way = beam_list;
      many = list_in_beam(scene, list, count, beam_list, light, s.position);
    }
    int number = light + set->first_light;
    Word one = shift(key, 2 * number), two = shift(key, 2 * number + 1);
    float direct = 0;
    for (int i = LANE; i < set->samples; i += LANES)
      direct += arriving(scene, light, &s, in_way, many, unit((Word)i * set->steps2[0] + one), unit((Word)i * set->steps2[1] + two));
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
FN void fill(Balls *balls, Scene *scene) {
  for (int i = 0; i < scene->n; i++) {
    const float *shape = scene->shapes + i * SHAPE_FLOATS;
    balls->x[i] = shape[12], balls->y[i] = shape[13], balls->z[i] = shape[14];
    // Quads have no ball in `meet`, and the ground's would hold everything.
    balls->radius[i] = kind_of(shape) == QUAD ? 1e15f : shape[15];
  }
  scene->balls = balls;
}

extern "C" void unlit_irradiance(const float *shapes, const float *hulls, const float *lights, const Index *casters,
                                 const float *heights, const float *sky, const int *sizes, const float *points,
                                 const float *normals, const float *shaded, const unsigned char *mask, float *result,
                                 Index *lists, int first, int last) {
  Scene scene = scene_of(shapes, hulls, lights, casters, heights, sky, sizes);
  Settings set = settings_of(sizes);
  Balls balls;
  fill(&balls, &scene);
  for (int pixel = first; pixel < last; pixel++)
    if (mask[pixel])
      shade_pixel(&scene, &set, sizes[8], pixel, sizes[4], points, normals, shaded, lists, lists + sizes[0], result);
}

extern "C" void unlit_hits(const float *shapes, const float *heights, const int *sizes, const float *origins,
                           const float *directions, float *distance, int *index, float *vectors, int first, int last) {
  Scene scene = bare_scene(shapes, heights, sizes);
  Balls balls;
  fill(&balls, &scene);
  for (int ray = first; ray < last; ray++)
    see(&scene, ray, sizes[4], origins, directions, distance, index, vectors);
}
#endif
