// Drawing of dqctl top.
#include <algorithm>
#include <array>
#include <chrono>

#include "filter.h"
#include "limits_text.h"
#include "top/top.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::MessageInfo;
using delayqueue::State;

constexpr std::size_t kShownPayload = 64 * 1024;
constexpr std::size_t kNames = 14;      // width of the field names
constexpr std::size_t kWholeIds = 110;  // from this width on, ids are not cut

struct Tab {
  State state;
  std::uint64_t Counts::*count;
};

constexpr std::array<Tab, 5> kTabs = {{{State::pending, &Counts::pending},
                                       {State::ready, &Counts::ready},
                                       {State::unack, &Counts::unack},
                                       {State::retry, &Counts::retry},
                                       {State::dead, &Counts::dead}}};

const char* time_title(State state) {
  switch (state) {
    case State::pending:
      return "DUE";
    case State::unack:
      return "ENDS";
    case State::dead:
      return "DEAD SINCE";
    default:
      return "SENT";
  }
}

std::string short_id(const std::string& id, bool whole) {
  return whole || id.size() <= 13 ? printable(id) : "…" + printable(id.substr(id.size() - 12));
}

std::string plain_text(std::string_view byte) {
  const char c = byte.front();
  return c >= 32 && c < 127 ? std::string(1, c) : ".";
}

std::string hex_line(std::string_view bytes, std::size_t offset) {
  char number[24];
  std::snprintf(number, sizeof number, "%08zx ", offset);
  std::string line = number;
  std::string text;
  for (std::size_t i = 0; i < 16; ++i) {
    const std::string_view byte = i < bytes.size() ? bytes.substr(i, 1) : std::string_view();
    line += (i % 8 == 0 ? " " : "") + (byte.empty() ? "   " : hex(byte) + ' ');
    if (!byte.empty()) text += plain_text(byte);
  }
  return line + " " + text;
}

// The longest prefix of a text that fits into `width` columns.
std::string front_of(std::string_view text, std::size_t width) {
  std::string part = cut(text.substr(0, 8 * width), width + 1);  // no more bytes than may fit
  constexpr std::string_view kCut = "…";
  const bool is_cut = part.size() >= kCut.size() && part.compare(part.size() - kCut.size(), kCut.size(), kCut) == 0;
  if (is_cut && part.size() < text.size() + kCut.size()) part.resize(part.size() - kCut.size());
  return part;
}

// The lines of a text. Long lines are wrapped.
std::vector<std::string> text_lines(std::string_view bytes, std::size_t width) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  while (begin <= bytes.size() && !bytes.empty()) {
    const std::size_t end = std::min(bytes.find('\n', begin), bytes.size());
    const std::string line = printable(bytes.substr(begin, end - begin));
    std::string_view rest = line;
    while (rest.size() > width) {
      const std::string part = front_of(rest, width);
      if (part.empty() || part.size() >= rest.size()) break;
      out.push_back(part);
      rest.remove_prefix(part.size());
    }
    out.emplace_back(rest);
    begin = end + 1;
  }
  return out;
}

std::vector<std::string> payload_lines(const MessageInfo& message, bool in_hex, std::size_t width) {
  if (!message.size) return {};
  const std::string_view shown = std::string_view(message.payload).substr(0, kShownPayload);
  std::vector<std::string> lines;
  if (in_hex) {
    for (std::size_t i = 0; i < shown.size(); i += 16) lines.push_back(hex_line(shown.substr(i, 16), i));
  } else {
    lines = text_lines(shown, width);
  }
  if (shown.size() < *message.size) {
    lines.push_back("… " + counted(*message.size - shown.size(), "more byte") + ": dqctl show --payload raw");
  }
  return lines;
}

// As counted by the last poll that read the list of queues.
std::uint64_t dead_letters_of(const Snapshot& snapshot, const std::string& queue) {
  const auto found = std::find_if(snapshot.queues.begin(), snapshot.queues.end(),
                                  [&](const QueueSnapshot& one) { return one.name == queue; });
  return found == snapshot.queues.end() ? 0 : found->counts.dead;
}

// What is stuck, else what the limits are.
std::string finding_of(const QueueSnapshot& queue) {
  const std::string limits = limits_text(queue.counts);
  return queue.finding.empty() && !limits.empty() ? "limits: " + limits : queue.finding;
}

std::string state_text(const MessageInfo& message) {
  std::string text = delayqueue::to_string(message.state);
  if (message.state != State::unack) return text;
  return text + (message.held ? ", in flight" : ", waiting out a backoff");
}

}  // namespace

// ---- All screens ---------------------------------------------------------------------------------------------------

Canvas Top::draw(Size size, const Snapshot& snapshot) {
  size_ = size;
  Canvas canvas(size);
  if (shows_help_) {
    draw_help(canvas);
    return canvas;
  }
  draw_bar(canvas, snapshot);
  switch (view_) {
    case View::queues:
      draw_queues(canvas, snapshot);
      break;
    case View::messages:
      draw_messages(canvas, snapshot);
      break;
    case View::message:
      draw_message(canvas, snapshot);
      break;
  }
  draw_foot(canvas, snapshot);
  return canvas;
}

std::string Top::bar_text(const Snapshot& snapshot) const {
  if (view_ != View::queues) return printable(queue_);
  std::string text = count_text(snapshot.queues.size()) + (snapshot.queues.size() == 1 ? " queue" : " queues") + " by ";
  text += name_of(sort_) + std::string(other_way_ ? ", reversed" : "");
  if (!filter_.empty()) text += "  /" + printable(filter_);
  return text + "  " + options_.where;
}

void Top::draw_bar(Canvas& canvas, const Snapshot& snapshot) {
  const std::string clock = snapshot.now ? time_text(*snapshot.now) : "";
  const std::string when = size_.columns >= 60 ? clock + "  every " + span_text(options_.interval) + " " : "";
  Line& line = canvas.line();
  line.add(" dqctl top  ", kBar);
  const std::size_t end = size_.columns - std::min(size_.columns, dqctl::width_of(when) + 2);
  const std::size_t room = end - std::min(end, line.used());
  line.add(cut(bar_text(snapshot), room), kBar);
  if (view_ != View::queues && snapshot.queue.counts.paused) line.add(" [paused]", kBar);
  line.fill(end + 2, kBar).add(when, kBar).fill(size_.columns, kBar);
}

void Top::draw_foot(Canvas& canvas, const Snapshot& snapshot) {
  if (canvas.size().rows < 4) return;
  canvas.skip_to(size_.rows - 2);
  Line& line = canvas.line();
  if (question_) {
    line.add(question_about(*question_, dead_letters_of(snapshot, question_->queue)), kNotable);
  } else if (edits_filter_) {
    line.add("Show queues with: " + printable(filter_) + "_   (Enter: done, Esc: all)", kBold);
  } else if (!snapshot.error.empty()) {
    const auto since = std::chrono::steady_clock::now() - snapshot.failing_since;
    const auto lasts = std::chrono::duration_cast<std::chrono::seconds>(since);
    line.add("No answer for " + span_text(std::max(lasts, std::chrono::seconds(1))) + ", trying again: ", kWrong);
    line.add(printable(snapshot.error), kWrong);
  } else if (!hint_.empty()) {
    line.add(hint_, kNotable);
  } else if (snapshot.notices > notices_read_) {
    line.add(snapshot.notice, kNotable);
  } else if (!finding_.empty()) {
    line.add(finding_, kNotable);
  }
  static constexpr const char* kKeys[] = {
      "Enter open  s sort  r reverse  p pause  R redrive  / filter  ? help  q quit",
      "Enter show  Tab state  PgUp/PgDn page  p pause  R L B change  ? help  Esc back",
      "x text/hex  PgUp/PgDn scroll  R redrive  L release  B bury  ? help  Esc back",
  };
  static constexpr const char* kReadingKeys[] = {
      "Enter open  s sort  r reverse  / filter  ? help  q quit",
      "Enter show  Tab state  PgUp/PgDn page  ? help  Esc back",
      "x text/hex  PgUp/PgDn scroll  ? help  Esc back",
  };
  const auto view = static_cast<std::size_t>(view_);
  canvas.line().add(" ").add(options_.read_only ? kReadingKeys[view] : kKeys[view]);
}

void Top::draw_help(Canvas& canvas) {
  canvas.line().add(" dqctl top: help", kBar).fill(size_.columns, kBar);
  for (const char* text : {"",
                           " Up Down j k    select, or scroll        PgUp PgDn  a page",
                           " Enter          open the queue; show the message",
                           " Esc q          back; from the queues: quit. Ctrl-C quits at once",
                           " s r            sort by the next column; reverse the order",
                           " /              show only queues whose name contains a text",
                           " p              pause the queue, or resume it (asks, like R L B)",
                           " R              redrive the message, or from the queues all dead letters of one",
                           " L B            release the message: deliver it now; bury it: a dead letter",
                           " Tab 1 2 3 4 5  pending, ready, unack, retry, dead messages of a queue",
                           " x              payload as text or hex",
                           "",
                           " PENDING  waits for its time            DUE      of these: its time has come",
                           " READY    waits for a consumer          UNACK    in flight, or in a backoff",
                           " RETRY    waits to be delivered again   OVERDUE  lease ended, not taken back",
                           " DEAD     dead letters                  OLDEST   how long the oldest waits: since it",
                           "                                        was due, else since it was sent",
                           " SENT/S DELIV/S ACK/S FAIL/S            per second, since the last poll",
                           "",
                           " [limit] after a name: a limit of the queue holds it back now (dqctl limit)",
                           " ! before a name: `dqctl stuck` warns of it by default, except for lost payloads",
                           "   and hot retries, which only its samples show, and messages held too long",
                           "",
                           " Any key goes back"}) {
    if (canvas.left() > 0) canvas.line().add(text);
  }
}

// ---- The queues ----------------------------------------------------------------------------------------------------

void Top::draw_queues(Canvas& canvas, const Snapshot& snapshot) {
  const std::vector<QueueSnapshot> queues = visible(snapshot);
  const QueueTable table(size_.columns, snapshot.queues);
  table.write_titles(canvas.line(), sort_);
  finding_.clear();
  const auto found =
      std::find_if(queues.begin(), queues.end(), [&](const QueueSnapshot& one) { return one.name == chosen_; });
  const std::size_t at = found == queues.end() ? 0 : static_cast<std::size_t>(found - queues.begin());
  if (!queues.empty()) finding_ = finding_of(queues[at]);
  const std::size_t page = canvas.left() > 2 ? canvas.left() - 2 : 0;
  if (page == 0) return;
  first_row_ = std::min(first_row_, at);
  if (at >= first_row_ + page) first_row_ = at + 1 - page;
  if (queues.size() <= page) first_row_ = 0;
  for (std::size_t i = first_row_; i < queues.size() && i < first_row_ + page; ++i) {
    table.write(canvas.line(), queues[i], i == at);
  }
  if (queues.empty())
    canvas.line().add(snapshot.queues.empty() ? "  No queue is there yet" : "  No queue has such a name");
}

// ---- The messages of a queue ---------------------------------------------------------------------------------------

void Top::draw_messages(Canvas& canvas, const Snapshot& snapshot) {
  finding_ = snapshot.queue.name == queue_ ? snapshot.queue.finding : "";
  Line& tabs = canvas.line();
  for (std::size_t i = 0; i < kTabs.size(); ++i) {
    const bool chosen = kTabs[i].state == state_;
    const std::string name = size_.columns < 60 ? std::string(delayqueue::to_string(kTabs[i].state)).substr(0, 3)
                                                : delayqueue::to_string(kTabs[i].state);
    const std::string text = (chosen ? "[" : " ") + std::to_string(i + 1) + " " + name + " " +
                             short_count(snapshot.queue.counts.*kTabs[i].count) + (chosen ? "]" : " ");
    tabs.add(text, chosen ? kBar : kPlain);
  }
  if (cursors_.size() > 1) tabs.add("  page " + std::to_string(cursors_.size()));
  if (const std::string limits = limits_text(snapshot.queue.counts); !limits.empty()) tabs.add("  " + limits, kNotable);
  const bool wide = size_.columns >= kWholeIds;
  canvas.line()
      .add("  ")
      .left("ID", wide ? 38 : 15, kBold)
      .left(time_title(state_), 12, kBold)
      .left("TRIES LEFT", size_.columns < 60 ? 0 : 12, kBold)
      .right("SIZE", size_.columns < 60 ? 0 : 9, kBold)
      .add("  ")
      .add(state_ == State::dead || state_ == State::retry ? "REASON, PAYLOAD" : "PAYLOAD", kBold);
  if (!is_current(snapshot)) {
    canvas.line().add("  Loading ...");
    return;
  }
  const auto& messages = snapshot.page.messages;
  message_row_ = messages.empty() ? 0 : std::min(message_row_, messages.size() - 1);
  const std::size_t page = canvas.left() > 2 ? canvas.left() - 2 : 0;
  const std::size_t first = page > 0 && message_row_ >= page ? message_row_ + 1 - page : 0;
  for (std::size_t i = first; i < messages.size() && i < first + page; ++i) {
    write_message(canvas.line(), messages[i], snapshot.now.value_or(Time()), i == message_row_);
  }
  if (messages.empty()) canvas.line().add(std::string("  No message is ") + delayqueue::to_string(state_));
}

void Top::write_message(Line& line, const MessageInfo& message, Time now, bool selected) {
  const bool wide = size_.columns >= kWholeIds;
  if (selected) line.select();
  line.add(selected ? "> " : "  ").left(short_id(message.id, wide), wide ? 38 : 15);
  const bool late = message.at && *message.at < now && message.state != State::dead;
  line.left(when_text(message, now), 12, late ? kNotable : kPlain);
  if (size_.columns >= 60) {
    line.right(std::to_string(message.deliveries), 5);
    line.right(message.retries ? std::to_string(*message.retries) : "-", 5).add("  ");
    line.right(message.size ? size_text(*message.size) : "missing", 9, message.size ? kPlain : kWrong);
  }
  line.add("  ");
  if (message.state == State::unack) line.add(message.held ? "held  " : "backoff  ", kNotable);
  if (!message.reason.empty()) {
    const std::size_t most = message.size.value_or(0) > 0 ? line.room() * 3 / 5 : line.room();
    line.add(cut(printable(message.reason), most), kWrong).add("  ");
  }
  line.add(printable(message.payload));
}

// ---- One message ---------------------------------------------------------------------------------------------------

std::vector<Top::Row> Top::rows_of(const MessageInfo& message, Time now) const {
  const std::size_t width = size_.columns > 4 ? size_.columns - 4 : 1;
  std::vector<Row> rows;
  const auto field = [&](const char* name, const std::string& value, Style style = kPlain) {
    const std::vector<std::string> parts = text_lines(value, width > kNames ? width - kNames : 1);
    for (std::size_t i = 0; i < parts.size(); ++i) rows.push_back({true, i == 0 ? name : "", parts[i], style});
  };
  const auto time = [&](const char* name, const std::optional<Time>& when, bool has_happened) {
    if (!when) return;
    field(name, time_text(*when) + " (" + (has_happened ? since_text(*when, now) : ago_text(*when, now)) + ")");
  };
  field("id", message.id, kBold);
  field("state", state_text(message));
  time(time_name(message), message.at, message.state == State::dead);
  time("sent", message.sent, true);
  field("deliveries", std::to_string(message.deliveries));
  if (message.state != State::dead) {
    field("retries left", message.retries ? std::to_string(*message.retries) : "none: it was cancelled");
  }
  if (message.ttl) field("expires", "in " + span_text(*message.ttl));
  field("reason", printable(message.reason), kWrong);
  field("payload", message.size ? size_text(*message.size) + (hex_ ? ", in hex" : ", as text")
                                : "missing: it expired, or was deleted");
  for (std::string& text : payload_lines(message, hex_, width)) rows.push_back({false, {}, std::move(text), kPlain});
  return rows;
}

void Top::draw_message(Canvas& canvas, const Snapshot& snapshot) {
  finding_.clear();
  most_scrolled_ = 0;
  if (!is_current(snapshot) || !snapshot.message) {
    canvas.line().add(is_current(snapshot) ? "  Gone: it was handled, cancelled or removed" : "  Loading ...");
    return;
  }
  const std::vector<Row> rows = rows_of(*snapshot.message, snapshot.now.value_or(Time()));
  const std::size_t room = canvas.left() > 2 ? canvas.left() - 2 : 0;
  most_scrolled_ = rows.size() > room ? rows.size() - room : 0;
  scrolled_ = std::min(scrolled_, most_scrolled_);
  for (std::size_t i = scrolled_; i < rows.size() && i < scrolled_ + room; ++i) {
    Line& line = canvas.line();
    line.add("  ");
    if (rows[i].is_field) line.left(rows[i].name, kNames);
    line.add(rows[i].text, rows[i].style);
  }
}

}  // namespace dqctl
