// Classifies one picture with a model compiled by malisdk, writing the input in place.
//
//   c++ -std=c++17 classify.cpp -lmalisdk -o classify
//   ./classify MODEL.mali IMAGE.ppm [LABELS.txt]
//
// IMAGE.ppm is a binary P6 file of the model's input size. Pixels become (value - 127) / 128, as the shipped
// efficientnet_lite0 wants them; other models say theirs in smoke/cases/<case>/case.json.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <numeric>

#include "malisdk/malisdk.hpp"

namespace {

constexpr float kMean = 127.0f;
constexpr float kScale = 128.0f;

// Fills planes (channel, row, column) from a P6 picture.
void read_image(const std::string& path, int64_t height, int64_t width, float* planes) {
  std::ifstream file(path, std::ios::binary);
  std::string magic;
  int64_t w = 0, h = 0, most = 0;
  file >> magic >> w >> h >> most;
  file.get();
  std::vector<unsigned char> pixels(static_cast<size_t>(height * width * 3));
  file.read(reinterpret_cast<char*>(pixels.data()), static_cast<std::streamsize>(pixels.size()));
  if (!file || magic != "P6" || w != width || h != height || most != 255) {
    throw std::runtime_error(path + ": expected a P6 picture of " + std::to_string(width) + " x " +
                             std::to_string(height));
  }
  for (int64_t i = 0; i < height * width; ++i) {
    for (int64_t c = 0; c < 3; ++c) {
      planes[c * height * width + i] = (static_cast<float>(pixels[static_cast<size_t>(i * 3 + c)]) - kMean) / kScale;
    }
  }
}

std::vector<std::string> read_labels(const char* path) {
  std::vector<std::string> labels;
  std::ifstream file(path != nullptr ? path : "");
  for (std::string line; std::getline(file, line);) labels.push_back(line);
  return labels;
}

int classify(const char* model_path, const char* image_path, const char* labels_path) {
  const malisdk::Model model(model_path);
  const malisdk_tensor_spec in = model.input(0);
  const malisdk_tensor_spec out = model.output(0);
  if (in.rank != 4 || in.shape[0] != 1 || in.shape[1] != 3 || in.dtype != MALISDK_FLOAT32 ||
      out.dtype != MALISDK_FLOAT32) {
    throw std::runtime_error("expected a model that takes float32[1,3,H,W] and gives float32");
  }
  malisdk::Session session(model);
  {
    malisdk::MappedInput input(session, 0);
    read_image(image_path, in.shape[2], in.shape[3], static_cast<float*>(input.data()));
    input.unmap();
  }
  session.run({}, {});

  const malisdk::MappedOutput output(session, 0);
  const auto* scores = static_cast<const float*>(output.data());
  std::vector<size_t> order(out.size_bytes / sizeof(float));
  std::iota(order.begin(), order.end(), size_t{0});
  const size_t top = std::min<size_t>(5, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                    [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  const auto labels = read_labels(labels_path);
  for (size_t place = 0; place < top; ++place) {
    const size_t index = order[place];
    std::printf("%8.4f  %4zu  %s\n", scores[index], index, index < labels.size() ? labels[index].c_str() : "");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: " << argv[0] << " MODEL.mali IMAGE.ppm [LABELS.txt]\n";
    return 2;
  }
  try {
    return classify(argv[1], argv[2], argc > 3 ? argv[3] : nullptr);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
