/* Classifies one picture with a model compiled by malisdk.
 *
 *   cc -std=c11 classify.c -lmalisdk -lm -o classify
 *   ./classify MODEL.mali IMAGE.ppm [LABELS.txt]
 *
 * IMAGE.ppm is a binary P6 file of the model's input size. Pixels become (value - 127) / 128, as the shipped
 * efficientnet_lite0 wants them; other models say theirs in smoke/cases/<case>/case.json.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "malisdk/malisdk.h"

#define MEAN 127.0f
#define SCALE 128.0f
#define TOP 5

static int fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, malisdk_last_error());
  return 1;
}

/* Reads a P6 picture into planes: channel, row, column. Returns 0 unless it is height x width. */
static int read_image(const char* path, int64_t height, int64_t width, float* planes) {
  FILE* file = fopen(path, "rb");
  long w = 0, h = 0, most = 0;
  int good = file != NULL && fscanf(file, "P6 %ld %ld %ld", &w, &h, &most) == 3 && w == width && h == height &&
             most == 255 && fgetc(file) != EOF;
  for (int64_t i = 0; good && i < height * width; ++i) {
    unsigned char pixel[3];
    good = fread(pixel, 1, 3, file) == 3;
    for (int c = 0; good && c < 3; ++c) planes[c * height * width + i] = ((float)pixel[c] - MEAN) / SCALE;
  }
  if (file != NULL) fclose(file);
  return good;
}

static void print_label(const char* path, uint64_t index) {
  char line[512] = "";
  FILE* file = path != NULL ? fopen(path, "r") : NULL;
  for (uint64_t i = 0; file != NULL && i <= index; ++i) {
    if (fgets(line, sizeof line, file) == NULL) line[0] = '\0';
  }
  if (file != NULL) fclose(file);
  line[strcspn(line, "\r\n")] = '\0';
  printf("  %s\n", line);
}

static malisdk_tensor make_tensor(const malisdk_tensor_spec* spec, void* data) {
  malisdk_tensor tensor = {0};
  tensor.name = spec->name;
  tensor.dtype = spec->dtype;
  tensor.rank = spec->rank;
  memcpy(tensor.shape, spec->shape, sizeof tensor.shape);
  tensor.data = data;
  tensor.size_bytes = spec->size_bytes;
  return tensor;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL.mali IMAGE.ppm [LABELS.txt]\n", argv[0]);
    return 2;
  }
  malisdk_model* model = NULL;
  malisdk_session* session = NULL;
  malisdk_tensor_spec in, out;
  if (malisdk_model_load(argv[1], NULL, &model) != MALISDK_OK) return fail("load");
  if (malisdk_model_input(model, 0, &in) != MALISDK_OK || malisdk_model_output(model, 0, &out) != MALISDK_OK)
    return fail("spec");
  if (in.rank != 4 || in.shape[0] != 1 || in.shape[1] != 3 || in.dtype != MALISDK_FLOAT32 ||
      out.dtype != MALISDK_FLOAT32) {
    fprintf(stderr, "%s: expected a model that takes float32[1,3,H,W] and gives float32\n", argv[1]);
    return 1;
  }
  float* image = malloc(in.size_bytes);
  float* scores = malloc(out.size_bytes);
  int code = 1;
  if (image == NULL || scores == NULL) {
    fprintf(stderr, "out of memory\n");
  } else if (!read_image(argv[2], in.shape[2], in.shape[3], image)) {
    fprintf(stderr, "%s: expected a P6 picture of %d x %d pixels\n", argv[2], (int)in.shape[3], (int)in.shape[2]);
  } else if (malisdk_session_create(model, NULL, &session) != MALISDK_OK) {
    fail("session");
  } else {
    const malisdk_tensor input = make_tensor(&in, image);
    malisdk_tensor output = make_tensor(&out, scores);
    const uint64_t count = out.size_bytes / sizeof(float);
    if (malisdk_session_run(session, &input, 1, &output, 1) != MALISDK_OK) {
      fail("run");
    } else {
      for (int place = 0; place < TOP && (uint64_t)place < count; ++place) {
        uint64_t best = 0;
        for (uint64_t i = 1; i < count; ++i) {
          if (scores[i] > scores[best]) best = i;
        }
        printf("%8.4f  %4llu", scores[best], (unsigned long long)best);
        print_label(argc > 3 ? argv[3] : NULL, best);
        scores[best] = -3.4e38f;
      }
      code = 0;
    }
  }
  free(image);
  free(scores);
  malisdk_session_destroy(session);
  malisdk_model_destroy(model);
  return code;
}
