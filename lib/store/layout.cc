#include "store/layout.h"

#include "store/limits.h"
#include "store/script_calls.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>

namespace delayqueue::store {
namespace {

using redis::Reply;

// As the scripts read it: unset unless it is a number below 2^53.
std::optional<std::int64_t> number_in(Reply reply) {
  if (reply.is_nil()) return std::nullopt;
  const std::string_view text = reply.text();
  std::int64_t number = 0;
  if (text.empty() || text.size() > 16 || text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number < kNoGeneration ? std::optional(number) : std::nullopt;
}

std::int64_t number_of(Reply reply) { return number_in(reply).value_or(0); }

Layout layout_of(std::int64_t generation, std::int64_t partitions, std::int64_t top) {
  Layout layout;
  if (generation > 0 && partitions <= kMostPartitions && is_partition_count(static_cast<unsigned>(partitions))) {
    layout.generation = generation;
    layout.partitions = static_cast<unsigned>(partitions);
  }
  layout.top = top > kMostPartitions ? 1 : static_cast<unsigned>(top);
  layout.top = std::max(layout.top, layout.partitions);
  return layout;
}

Layout as_fields(Reply reply) { return layout_of(number_of(reply[0]), number_of(reply[1]), number_of(reply[2])); }

SenderSettings as_sender_settings(Reply reply) {
  return {as_fields(reply), reply[3].is_nil() ? std::nullopt : limit_of(reply[3].text())};
}

constexpr const char* kNumberSettings[] = {"generation", "partitions", "top", "pause", "limits", "length"};

std::vector<std::string> as_invalid(Reply reply) {
  std::vector<std::string> invalid;
  for (std::size_t i = 0; i < std::size(kNumberSettings); ++i) {
    if (reply[i].is_nil()) continue;
    const std::optional<std::int64_t> number = number_in(reply[i]);
    const bool is_generation = i == 0 || i == 3 || i == 4;  // 0 in a copy of what was never set
    const bool in_range = number && *number > 0 && (i == 5 || *number <= kMostPartitions);
    const bool possible = number && (is_generation || in_range);
    if (!possible || (i == 1 && !is_partition_count(static_cast<unsigned>(*number)))) {
      invalid.emplace_back(kNumberSettings[i]);
    }
  }
  return invalid;
}

bool as_any(Reply reply) { return reply.integer() > 0; }

StoredLayout as_stored(Reply reply) {
  const auto number = [&](std::size_t i) { return std::max<std::int64_t>(0, reply[i].integer()); };
  return {reply[0].integer() == 1, layout_of(number(1), number(2), number(3))};
}

Answer<StoredLayout> change(Pipeline& pipeline, const Keys& keys, const Layout& known, unsigned partitions,
                            bool as_new) {
  calls::layout(pipeline, keys)
      .args(arg::generation(known.generation), arg::partitions(partitions), arg::top(known.top), arg::is_new(as_new));
  return {pipeline, as_stored};
}

}  // namespace

bool operator==(const Layout& a, const Layout& b) {
  return a.generation == b.generation && a.partitions == b.partitions && a.top == b.top;
}

Layout merged(const Layout& a, const Layout& b) {
  const bool b_counts = b.generation > a.generation || (b.generation == a.generation && b.partitions > a.partitions);
  Layout both = b_counts ? b : a;
  both.top = std::max(a.top, b.top);
  return both;
}

bool is_partition_count(unsigned partitions) {
  return partitions > 0 && partitions <= kMostPartitions && (partitions & (partitions - 1)) == 0;
}

Answer<Layout> read_layout(Pipeline& pipeline, const Keys& keys) {
  pipeline.command("HMGET").key(keys.settings).arg("generation").arg("partitions").arg("top");
  return {pipeline, as_fields};
}

Answer<SenderSettings> read_sender_settings(Pipeline& pipeline, const Keys& keys) {
  pipeline.command("HMGET").key(keys.settings).arg("generation").arg("partitions").arg("top").arg("length");
  return {pipeline, as_sender_settings};
}

Answer<std::vector<std::string>> invalid_settings(Pipeline& pipeline, const Keys& keys) {
  pipeline.command("HMGET").key(keys.settings);
  for (const char* field : kNumberSettings) pipeline.arg(field);
  return {pipeline, as_invalid};
}

Answer<bool> has_messages(Pipeline& pipeline, const Keys& keys) {
  pipeline.command("EXISTS").key(keys.pending).key(keys.ready).key(keys.unack).key(keys.retry).key(keys.dead);
  pipeline.key(keys.count).key(keys.garbage);
  return {pipeline, as_any};
}

Answer<StoredLayout> copy_layout(Pipeline& pipeline, const Keys& keys, const Layout& known) {
  return change(pipeline, keys, known, known.partitions, false);
}

Answer<StoredLayout> set_layout(Pipeline& pipeline, const Keys& keys, const Layout& known, unsigned partitions) {
  return change(pipeline, keys, known, partitions, true);
}

}  // namespace delayqueue::store
