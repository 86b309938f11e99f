// The orders of order_timeout, read from a file with one JSON object per line.
#pragma once

#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

using Minutes = std::chrono::duration<double, std::deci>;  // one minute of the shop takes 0.1 s

struct Order {
  std::string id{};
  std::string line{};             // the line in the file, which is the message's payload
  Minutes created{};              // since midnight
  Minutes window{};               // the time limit for payment
  std::optional<Minutes> paid{};  // since midnight

  // The outcome of its handler: "fine", "fails once", "always fails", "is refused" or "hangs once".
  std::string handler{};
  std::string reason{};
  Minutes takes{0.02};
};

inline Order parse_order(const std::string& line) {
  const auto json = nlohmann::json::parse(line);
  const std::string created = json.at("created");
  int hour = 0, minute = 0, second = 0;
  if (std::sscanf(created.c_str(), "%*d-%*d-%*dT%d:%d:%dZ", &hour, &minute, &second) != 3) {
    throw std::runtime_error("created: \"" + created + "\"; expected YYYY-MM-DDThh:mm:ssZ");
  }
  Order order;
  order.id = json.at("order");
  order.line = line;
  order.created = Minutes(hour * 60 + minute + second / 60.0);
  order.window = Minutes(json.at("pay_within_min").get<double>());
  const auto& paid = json.at("paid_after_min");
  if (!paid.is_null()) order.paid = order.created + Minutes(paid.get<double>());
  const auto& expiry = json.at("expiry");
  order.handler = expiry.at("does");
  order.reason = expiry.value("reason", "");
  order.takes = Minutes(expiry.value("takes_min", order.takes.count()));
  return order;
}

inline std::vector<Order> read_orders(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<Order> orders;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    try {
      if (!line.empty()) orders.push_back(parse_order(line));
    } catch (const std::exception& e) {
      throw std::runtime_error(path + ":" + std::to_string(number) + ": " + e.what());
    }
  }
  if (orders.empty()) throw std::runtime_error("no orders in " + path);
  return orders;
}
