#include "top/queue_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "limits_text.h"
#include "output/text.h"

namespace dqctl {
namespace {

constexpr std::size_t kMarks = 2;  // > and !, before the name
constexpr std::size_t kWide = 140;
constexpr std::size_t kNarrow = 60;
constexpr std::size_t kMostHistory = 60;

struct ColumnInfo {
  Sort sort;
  const char* title;
  std::size_t width;  // including a gap before it
};

// In the order of the screen.
constexpr std::array<ColumnInfo, 12> kColumns = {{{Sort::pending, "PENDING", 8},
                                                  {Sort::ready, "READY", 6},
                                                  {Sort::unack, "UNACK", 6},
                                                  {Sort::retry, "RETRY", 6},
                                                  {Sort::dead, "DEAD", 6},
                                                  {Sort::due, "DUE", 6},
                                                  {Sort::overdue, "OVERDUE", 8},
                                                  {Sort::oldest, "OLDEST", 7},
                                                  {Sort::sent, "SENT/S", 7},
                                                  {Sort::delivered, "DELIV/S", 8},
                                                  {Sort::acked, "ACK/S", 7},
                                                  {Sort::failed, "FAIL/S", 7}}};

// Columns are added in this order while they fit.
constexpr std::array<Sort, 12> kImportance = {Sort::ready, Sort::dead,   Sort::unack,   Sort::pending,
                                              Sort::retry, Sort::oldest, Sort::acked,   Sort::failed,
                                              Sort::sent,  Sort::due,    Sort::overdue, Sort::delivered};

const ColumnInfo& info_of(Sort sort) {
  return *std::find_if(kColumns.begin(), kColumns.end(), [&](const ColumnInfo& info) { return info.sort == sort; });
}

double value_of(const QueueSnapshot& queue, Sort sort) {
  const auto& counts = queue.counts;
  const Rates rates = queue.rates.value_or(Rates{-1, -1, -1, -1});
  switch (sort) {
    case Sort::name:
      return 0;
    case Sort::pending:
      return static_cast<double>(counts.pending);
    case Sort::ready:
      return static_cast<double>(counts.ready);
    case Sort::unack:
      return static_cast<double>(counts.unack);
    case Sort::retry:
      return static_cast<double>(counts.retry);
    case Sort::dead:
      return static_cast<double>(counts.dead);
    case Sort::due:
      return static_cast<double>(counts.due);
    case Sort::overdue:
      return static_cast<double>(counts.overdue);
    case Sort::oldest:
      return queue.oldest ? static_cast<double>(queue.oldest->count()) : -1;
    case Sort::sent:
      return rates.sent;
    case Sort::delivered:
      return rates.delivered;
    case Sort::acked:
      return rates.acked;
    case Sort::failed:
      return rates.failed;
  }
  return 0;
}

bool is_rate(Sort sort) {
  return sort == Sort::sent || sort == Sort::delivered || sort == Sort::acked || sort == Sort::failed;
}

std::string rate_text(double rate) {
  if (rate < 0) return "";
  char text[40];
  if (rate < 99.95) {
    std::snprintf(text, sizeof text, "%.1f", rate);
    return text;
  }
  constexpr double kMost = 1e18;  // other programs may write totals whose difference no integer holds
  return short_count(static_cast<std::uint64_t>(std::min(rate, kMost) + 0.5));
}

std::string text_of(const QueueSnapshot& queue, Sort sort, std::size_t room) {
  const double value = value_of(queue, sort);
  if (is_rate(sort)) return rate_text(value);
  if (sort == Sort::oldest) return queue.oldest ? span_text(*queue.oldest) : "";
  const auto count = static_cast<std::uint64_t>(value);
  std::string whole = count_text(count);
  return whole.size() < room ? whole : short_count(count);
}

Style style_of(const QueueSnapshot& queue, Sort sort) {
  const bool some = value_of(queue, sort) > 0;
  if (some && (sort == Sort::dead || sort == Sort::failed)) return kWrong;
  if (some && (sort == Sort::due || sort == Sort::overdue || sort == Sort::retry)) return kNotable;
  // The columns DUE and OVERDUE may not fit.
  if (sort == Sort::pending && queue.counts.due > 0) return kNotable;
  if (sort == Sort::unack && queue.counts.overdue > 0) return kNotable;
  return kPlain;
}

std::string mark_of(const QueueSnapshot& queue) {
  return queue.counts.paused ? " [paused]" : held_back_text(queue.counts).empty() ? "" : " [limit]";
}

bool needs_a_look(const QueueSnapshot& queue) { return !queue.error.empty() || !queue.finding.empty(); }

std::string bars(const std::vector<double>& values, std::size_t width) {
  static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const std::size_t count = std::min(values.size(), width);
  const auto begin = values.end() - static_cast<std::ptrdiff_t>(count);
  const double most = count == 0 ? 0 : *std::max_element(begin, values.end());
  std::string out;
  for (auto value = begin; value != values.end(); ++value) {
    out += *value <= 0 ? " " : kBars[std::min<std::size_t>(7, static_cast<std::size_t>(*value / most * 7.999))];
  }
  return out;
}

}  // namespace

const char* name_of(Sort sort) {
  static constexpr std::array<const char*, kSorts> kNames = {"name",      "pending", "ready",   "unack",  "retry",
                                                             "dead",      "due",     "overdue", "oldest", "sent",
                                                             "delivered", "acked",   "failed"};
  return kNames[static_cast<std::size_t>(sort)];
}

void put_in_order(std::vector<QueueSnapshot>& queues, Sort sort, bool other_way) {
  const auto before = [&](const QueueSnapshot& a, const QueueSnapshot& b) {
    const double first = value_of(a, sort), second = value_of(b, sort);
    if (first != second) return other_way ? first < second : first > second;
    return sort == Sort::name && other_way ? b.name < a.name : a.name < b.name;
  };
  std::stable_sort(queues.begin(), queues.end(), before);
}

QueueTable::QueueTable(std::size_t width, const std::vector<QueueSnapshot>& queues) : wide_(width >= kWide) {
  std::size_t longest = 5;
  for (const QueueSnapshot& queue : queues) {
    longest = std::max(longest, dqctl::width_of(printable(queue.name)) + mark_of(queue).size());
  }
  const std::size_t least = kMarks + (width < kNarrow ? 10 : 16);
  std::size_t left = width > least ? width - least : 0;
  std::vector<Sort> chosen;
  for (const Sort sort : kImportance) {
    const std::size_t need = info_of(sort).width + (wide_ ? 3 : 0);
    if (need > left) break;
    left -= need;
    chosen.push_back(sort);
  }
  for (const ColumnInfo& info : kColumns) {
    const bool is_chosen = std::find(chosen.begin(), chosen.end(), info.sort) != chosen.end();
    if (is_chosen) shown_.push_back({info.sort, info.width + (wide_ ? 3 : 0)});
  }
  name_width_ = std::min(width, least + left) - std::min(width, kMarks);
  if (!wide_ || name_width_ <= longest + 12) return;
  history_width_ = std::min(kMostHistory, name_width_ - longest - 2);
  name_width_ -= history_width_ + 2;
}

bool QueueTable::shows(Sort sort) const {
  return sort == Sort::name ||
         std::any_of(shown_.begin(), shown_.end(), [&](const Shown& one) { return one.column == sort; });
}

void QueueTable::write_titles(Line& line, Sort sort) const {
  const auto style = [&](Sort column) { return column == sort ? kBar : kBold; };
  line.fill(kMarks).add("QUEUE", style(Sort::name)).fill(kMarks + name_width_);
  for (const Shown& one : shown_) {
    const std::string title = info_of(one.column).title;
    line.fill(line.used() + one.width - title.size()).add(title, style(one.column));
  }
  if (history_width_ > 0) line.add("  ").add("ACKED PER SECOND", kBold);
}

void QueueTable::write(Line& line, const QueueSnapshot& queue, bool selected) const {
  line.add(selected ? ">" : " ").add(needs_a_look(queue) ? "!" : " ", kWrong);
  if (selected) line.select();
  const std::string mark = mark_of(queue);
  const std::size_t room = name_width_ > mark.size() ? name_width_ - mark.size() : 0;
  line.add(cut(printable(queue.name), room), kBold).add(mark, kNotable).fill(kMarks + name_width_);
  if (!queue.error.empty()) {
    line.add(" ").add(printable(queue.error), kWrong);
    return;
  }
  for (const Shown& one : shown_) {
    line.right(text_of(queue, one.column, one.width), one.width, style_of(queue, one.column));
  }
  if (history_width_ > 0) line.add("  ").add(bars(queue.history, history_width_));
}

std::string short_count(std::uint64_t count) {
  if (count < 10'000) return count_text(count);
  static constexpr const char* kUnits[] = {"k", "M", "G", "T", "P", "E"};
  std::size_t unit = 0;
  std::uint64_t rest = count;
  while (rest >= 1'000'000) rest /= 1000, ++unit;
  const std::uint64_t whole = rest / 1000, tenth = rest % 1000 / 100;
  return std::to_string(whole) + (whole < 100 ? '.' + std::to_string(tenth) : "") + kUnits[unit];
}

}  // namespace dqctl
