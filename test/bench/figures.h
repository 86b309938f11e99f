// What was measured, by the names of the keys in the JSON.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bench {

// The value below which a share (0 to 1) of the values lies, one of them; 0 if there are none.
double percentile(std::vector<double> values, double share);

class Figures {
 public:
  // One more measurement of "send.batch". A figure is the median of its measurements.
  void add(const std::string& name, double value);

  // A quotient of two figures, with the quotients of measurements made side by side as its spread.
  void ratio(const std::string& name, const std::string& above, const std::string& below);

  // What the figures hold for.
  void environment(const std::string& name, std::string_view value) { environment_.emplace_back(name, value); }

  // A JSON object of what others measured on the same server; it stands under `peers` as it is. Throws if it is none.
  void peers(const std::string& json);

  // One JSON object.
  std::string json() const;

 private:
  struct Figure {
    std::string name;
    double value;
    std::vector<double> samples;
  };

  const Figure* find(const std::string& name) const;

  std::vector<Figure> figures_;  // in the order in which they came
  std::vector<std::pair<std::string, std::string>> environment_;
  std::string peers_;
};

}  // namespace bench
