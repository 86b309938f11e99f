// Runs one move of the model test: reads the time before it, dumps the queue after it, and logs the move.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "support/model_moves.h"

namespace test::model {

std::string shown(const std::string& text);
std::string shown(std::size_t count);
std::string shown(const std::vector<Hold>& holds);
std::string shown(const delayqueue::store::Promoted& promoted);
std::string shown(const delayqueue::store::Taken& taken);
std::string shown(const delayqueue::store::Renewed& renewed);
std::string shown(const delayqueue::store::Reclaimed& reclaimed);
std::string shown(const delayqueue::store::Purged& purged);
std::string shown(const delayqueue::store::PurgedIds& purged);
std::string shown(const std::vector<std::optional<std::string>>& bodies);

// The first 8 characters of each id.
template <class Ids>
std::string joined(const Ids& ids) {
  std::string out;
  for (const std::string& id : ids) out += ' ' + id.substr(0, 8);
  return out;
}

template <class Add>
auto Play::ask(const std::string& move, Add add) {
  delayqueue::store::Pipeline pipeline(connection_);
  add_time(pipeline);
  const auto answer = add(pipeline);
  add_dump(pipeline, store_.keys().base);
  log_.push_back(move);
  pipeline.run();
  const auto real = answer.get();
  dump_ = read_dump(pipeline.reply(2));
  now_ = {read_time(pipeline.reply(0)), dump_.now_us};
  log_.back() += " -> " + shown(real);
  return real;
}

}  // namespace test::model
