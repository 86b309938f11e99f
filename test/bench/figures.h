// The measured figures, under the names of their JSON keys.
#pragma once

#include "support/standard.h"

namespace bench {

// The value below which `share` (0 to 1) of the values lie. It is one of the values; 0 if there are none.
double percentile(std::vector<double> values, double share);

class Figures {
 public:
  // Adds a measurement. A figure is the median of its measurements.
  void add(const std::string& name, double value);

  // A quotient of two figures. Its spread has the quotients of the measurements of each round.
  void ratio(const std::string& name, const std::string& above, const std::string& below);

  // Adds a property of the machine, the server or the build.
  void environment(const std::string& name, std::string_view value) { environment_.emplace_back(name, value); }

  // A JSON object with figures of other libraries on the same server; stored under `peers` unchanged. Throws if it is
  // no object.
  void peers(const std::string& json);

  // All figures as one JSON object.
  std::string json() const;

 private:
  struct Figure {
    std::string name;
    double value;
    std::vector<double> samples;
  };

  const Figure* find(const std::string& name) const;

  std::vector<Figure> figures_;  // in the order of their first measurement
  std::vector<std::pair<std::string, std::string>> environment_;
  std::string peers_;
};

}  // namespace bench
