// Prints known vectors of std::mt19937 and the standard distributions as JSON, in the flavour of
// the standard library this is compiled with. The file's "regenerate" entry has the command.
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#ifdef _LIBCPP_VERSION
#define LIBRARY "libc++"
#define COMMAND "clang++ -stdlib=libc++"
#define STEM "libcxx"
#else
#define LIBRARY "libstdc++"
#define COMMAND "g++"
#define STEM "libstdcxx"
#endif

// An engine that gives chosen words, to reach the edges.
struct Words {
  using result_type = uint32_t;
  static constexpr uint32_t min() { return 0; }
  static constexpr uint32_t max() { return 0xFFFFFFFFu; }
  uint32_t operator()() { return words[used++ % words.size()]; }
  std::vector<uint32_t> words;
  size_t used = 0;
};

using Weights = std::vector<double>;
using Pair = std::vector<uint32_t>;

const char* separator = "";

void item(const char* before) { std::printf("%s%s", separator, before), separator = ",\n  "; }

template <typename T>
void list(const char* name, const std::vector<T>& values, const char* format) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i)
    std::printf(i ? ", " : ""), std::printf(format, values[i]);
  std::printf("]");
}

int main() {
  const double tiny = std::numeric_limits<double>::denorm_min();
  const float third = 1.0f / 3;
  // clang-format off
  const std::vector<Weights> all_weights = {
      {1},          {0.25},       {tiny},           {1, 1},          {1, 0},       {0, 1},
      {0, 0, 3, 0}, {1, 1, 1, 1}, {0, 1, 1, 1, 1},  {1, 1, 1, 1, 0}, {tiny, tiny},
      {1, tiny},    {tiny, 1},    {1e-300, 1, 1e3}, {0.1, 0.2, 0.7}, {1e308, 1e307},
      {tiny, 0, 2 * tiny}, {third, third, third}, Weights(7, 0.1), Weights(1000, 0.001)};
  const std::vector<Pair> pairs = {
      {0, 0}, {1, 0}, {0, 1}, {0, 0x20000000}, {0, 0x40000000}, {0, 0x80000000}, {0, 0xC0000000},
      {1 << 11, 0x80000000}, {0xFFFFFFFF, 0x7FFFFFFF}, {0xFFFFF800, 0x3FFFFFFF}, {0, 0x33333333},
      {0xFFFFFBFF, 0xFFFFFFFF}, {0xFFFFFC00, 0xFFFFFFFF}, {0xFFFFFFFF, 0xFFFFFFFF}};
  const std::vector<uint32_t> edges = {0, 1, 0x80, 0x7FFFFFFF, 0x80000000, 0xFFFFFF00, 0xFFFFFF7F,
                                       0xFFFFFF80, 0xFFFFFF81, 0xFFFFFFFF};
  // clang-format on
  std::printf("{\"regenerate\": \"" COMMAND
              " -std=c++20 tools/mt19937_vectors.cpp -o vectors && "
              "./vectors > tests/data/mt19937_" STEM ".json\",\n\"library\": \"" LIBRARY "\"");

  std::printf(",\n\"seeds\": [\n  "), separator = "";
  for (uint32_t seed : {0u, 1u, 42u, 5489u, 0x80000000u, 0xFFFFFFFEu, 0xFFFFFFFFu}) {
    std::mt19937 words(seed), floats(seed), doubles(seed);
    std::vector<unsigned> head, block;
    std::vector<double> f32, f64;
    for (int i = 1; i < 10000; ++i) {
      const unsigned word = words();
      if (i <= 4) head.push_back(word);
      if (i >= 622 && i <= 626) block.push_back(word);
    }
    std::uniform_real_distribution<float> f;
    std::uniform_real_distribution<double> d;
    for (int i = 0; i < 6; ++i) f32.push_back(f(floats)), f64.push_back(d(doubles));
    item("{"), std::printf("\"seed\": %u, ", seed), list("first", head, "%u"), std::printf(", ");
    list("words_622_to_626", block, "%u"), std::printf(", \"word_10000\": %u, ", unsigned(words()));
    list("uniform_f32", f32, "%.17g"), std::printf(", "), list("uniform_f64", f64, "%.17g");
    std::printf("}");
  }

  std::printf("],\n\"uniform_f32\": [\n  "), separator = "";
  for (uint32_t word : edges) {
    Words engine{{word}};
    const float u = std::uniform_real_distribution<float>()(engine);
    item("{"), std::printf("\"word\": %u, \"value\": %.17g}", word, u);
  }
  std::printf("],\n\"uniform_f64\": [\n  "), separator = "";
  for (const Pair& pair : pairs) {
    Words engine{pair};
    const double u = std::uniform_real_distribution<double>()(engine);
    item("{"), list("words", pair, "%u"), std::printf(", \"value\": %.17g}", u);
  }

  std::printf("],\n\"discrete\": [\n  "), separator = "";
  for (const Weights& weights : all_weights) {
    std::discrete_distribution<int> pick(weights.begin(), weights.end());
    std::mt19937 engine(1234);
    std::vector<int> seeded, chosen;
    for (int i = 0; i < 24; ++i) seeded.push_back(pick(engine));
    for (const Pair& pair : pairs) {
      Words edge{pair};
      chosen.push_back(pick(edge));
    }
    item("{"), list("weights", weights, "%.17g"), std::printf(", "),
        list("seed_1234", seeded, "%d");
    std::printf(", \"next_word\": %u, ", unsigned(engine())), list("pairs", chosen, "%d");
    std::printf("}");
  }
  std::printf("]}\n");
}
