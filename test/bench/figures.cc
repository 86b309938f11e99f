#include "bench/figures.h"

#include <nlohmann/json.hpp>

namespace bench {
namespace {

using nlohmann::ordered_json;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

// Rounds to four significant digits, but keeps all digits before the decimal point. Further digits are noise.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10.0, std::min(0.0, std::floor(std::log10(std::abs(value))) - 3));
  const double steps = std::round(value / unit);
  return unit == 1 ? steps : steps / std::round(1 / unit);
}

// The element "a.b" of an object.
ordered_json& at(ordered_json& object, const std::string& name) {
  ordered_json* found = &object;
  std::size_t begin = 0;
  for (std::size_t dot = name.find('.'); dot != std::string::npos; begin = dot + 1, dot = name.find('.', begin)) {
    found = &(*found)[name.substr(begin, dot - begin)];
  }
  return (*found)[name.substr(begin)];
}

}  // namespace

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto rank = std::ceil(share * static_cast<double>(values.size()));
  const auto index = static_cast<std::ptrdiff_t>(std::max(rank - 1, 0.0));
  std::nth_element(values.begin(), values.begin() + index, values.end());
  return values[static_cast<std::size_t>(index)];
}

const Figures::Figure* Figures::find(const std::string& name) const {
  const auto found = std::find_if(figures_.begin(), figures_.end(), [&](const Figure& f) { return f.name == name; });
  return found == figures_.end() ? nullptr : &*found;
}

void Figures::add(const std::string& name, double value) {
  if (find(name) == nullptr) figures_.push_back({name, 0, {}});
  Figure& figure = figures_[static_cast<std::size_t>(find(name) - figures_.data())];
  figure.samples.push_back(value);
  figure.value = median(figure.samples);
}

void Figures::ratio(const std::string& name, const std::string& above, const std::string& below) {
  const Figure& a = *find(above);
  const Figure& b = *find(below);
  Figure ratio{name, a.value / b.value, {}};
  for (std::size_t i = 0; i < std::min(a.samples.size(), b.samples.size()); ++i) {
    ratio.samples.push_back(a.samples[i] / b.samples[i]);
  }
  figures_.push_back(std::move(ratio));
}

void Figures::peers(const std::string& json) {
  const auto parsed = ordered_json::parse(json, nullptr, false);
  if (!parsed.is_object()) throw std::runtime_error("peers: the output is not a JSON object: " + json.substr(0, 200));
  peers_ = json;
}

std::string Figures::json() const {
  ordered_json result = ordered_json::object();
  ordered_json spread = ordered_json::object();
  for (const Figure& figure : figures_) {
    at(result, figure.name) = rounded(figure.value);
    if (figure.samples.size() < 2) continue;
    const auto [least, most] = std::minmax_element(figure.samples.begin(), figure.samples.end());
    at(spread, figure.name) = {{"min", rounded(*least)}, {"max", rounded(*most)}};
  }
  result["spread"] = spread;
  if (!peers_.empty()) result["peers"] = ordered_json::parse(peers_);
  for (const auto& [name, text] : environment_) result["environment"][name] = text;
  return result.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace bench
