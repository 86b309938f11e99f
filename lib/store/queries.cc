#include "store/queries.h"

#include "store/record.h"
#include "store/replies.h"
#include "store/script_calls.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace delayqueue::store {
namespace {

using redis::Reply;

// A value that is no count is read as 0.
std::uint64_t as_total(Reply reply) {
  const std::string_view text = reply.text();
  std::uint64_t number = 0;
  if (is_total(text)) std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::optional<std::int64_t> as_time(Reply reply) {
  if (reply.text().empty()) return std::nullopt;
  return time_of_score(reply.text());
}

// A value that is no number counts as 0, as in the scripts: another program may have written it.
std::optional<int> as_retries(Reply reply) {
  const std::string_view text = reply.text();
  if (text.empty()) return std::nullopt;
  return text.find_first_not_of("0123456789") == std::string_view::npos ? number_at_start(text) : 0;
}

// Reads score, retries, attempts and reason from position `at` on.
Entry as_entry(std::string id, Reply reply, std::size_t at) {
  const std::string_view attempts = reply[at + 2].text();
  Entry entry;
  entry.id = std::move(id);
  entry.score_us = as_time(reply[at]);
  entry.retries = as_retries(reply[at + 1]);
  entry.deliveries = deliveries_of(attempts);
  entry.undelivered = attempts == "0";
  if (const auto space = attempts.find(' '); space != std::string_view::npos) {
    entry.last_end_us = time_of_score(attempts.substr(space + 1));
  }
  entry.reason = as_text(reply[at + 3]);
  return entry;
}

QueueCounts as_counts(Reply reply) {
  QueueCounts counts;
  counts.now_us = as_now(reply[0]);
  std::uint64_t* const lengths[] = {&counts.pending, &counts.ready,   &counts.unack, &counts.retry,
                                    &counts.dead,    &counts.garbage, &counts.due,   &counts.overdue};
  for (std::size_t i = 0; i < std::size(lengths); ++i) *lengths[i] = as_count(reply[i + 1]);
  counts.first_pending_us = as_time(reply[9]);
  counts.first_unack_us = as_time(reply[10]);
  const std::int64_t pause_left = reply[11].integer();
  counts.paused = pause_left != -2;
  if (pause_left >= 0) counts.pause_left_ms = std::min(pause_left, kLatestUs / 1000);
  const Reply totals = reply[12];
  for (std::size_t i = 0; i < std::size(kTotals); ++i) counts.stats.emplace(kTotals[i], as_total(totals[i]));
  counts.oldest_ready_us = as_time(reply[13]);
  const Reply limits = reply[14];
  counts.limits.rate = rate_of(limits[0].text(), limits[1].text(), limits[2].text());
  counts.limits.running = limit_of(limits[3].text());
  counts.limits.length = limit_of(limits[4].text());
  counts.in_flight = as_count(limits[5]);
  counts.next_token = std::chrono::microseconds(static_cast<std::int64_t>(as_count(limits[6])));
  counts.alive = as_count(limits[7]);
  return counts;
}

Page as_page(Reply reply) {
  Page page;
  page.ids_read = as_count(reply[0]);
  for (std::size_t i = 1; i < reply.size(); ++i) {
    page.entries.push_back(as_entry(as_text(reply[i][0]), reply[i], 1));
    Entry& entry = page.entries.back();
    if (entry.score_us) {
      entry.score = as_text(reply[i][5]);
    } else {
      entry.offset = as_count(reply[i][5]);
    }
  }
  return page;
}

Found as_found(Reply reply) { return {as_text(reply[0]), as_entry({}, reply, 1)}; }

Answer<Page> page(Pipeline& pipeline, const Keys& keys, const std::string& state, const char* type,
                  const PageStart& start, std::size_t most) {
  calls::page call(pipeline, keys, state);
  call.args(arg::type(type), arg::order(start.newest ? "new" : "old"), arg::after(start.after), arg::most(most));
  return {pipeline, as_page};
}

}  // namespace

bool is_total(std::string_view text) {
  constexpr std::size_t kMostDigits = 15;  // a JSON number keeps 15 digits exactly; no queue counts so far
  const bool number = text.find_first_not_of("0123456789") == std::string_view::npos;
  return number && !text.empty() && text.size() <= kMostDigits;
}

Answer<QueueCounts> counts(Pipeline& pipeline, const Keys& keys) {
  calls::counts call(pipeline, keys);
  for (const char* total : kTotals) call.each(arg::field(total));
  return {pipeline, as_counts};
}

Answer<Page> page_of_zset(Pipeline& pipeline, const Keys& keys, const std::string& state, const PageStart& start,
                          std::size_t most) {
  return page(pipeline, keys, state, "zset", start, most);
}

Answer<Page> page_of_list(Pipeline& pipeline, const Keys& keys, const std::string& state, const PageStart& start,
                          std::size_t most) {
  return page(pipeline, keys, state, "list", start, most);
}

std::string place_of(const Entry& entry) {
  const bool is_cut = entry.id.size() > kPlaceBytes;
  return entry.score + (is_cut ? "* " : " ") + entry.id.substr(0, kPlaceBytes);
}

bool is_place(std::string_view text) {
  const auto skip_digits = [&] {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(digits);
    return digits > 0;
  };
  const auto skip = [&](std::string_view word) {
    const bool there = text.substr(0, word.size()) == word;
    if (there) text.remove_prefix(word.size());
    return there;
  };
  skip("-");
  if (!skip("inf")) {
    if (!skip_digits() || (skip(".") && !skip_digits())) return false;
    if (skip("e")) {
      if (!skip("+")) skip("-");
      if (!skip_digits()) return false;
    }
  }
  skip("*");
  return skip(" ") && text.size() <= kPlaceBytes;
}

Answer<Found> find(Pipeline& pipeline, const Keys& keys, std::string_view id) {
  calls::find(pipeline, keys, {keys.bodies, id});
  return {pipeline, as_found};
}

}  // namespace delayqueue::store
