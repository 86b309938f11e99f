#include "top/top.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace dqctl {
namespace {

using delayqueue::State;
using Kind = Key::Kind;

constexpr std::size_t kFrame = 4;  // lines around a list: bar, titles, status, keys
constexpr std::array<State, 5> kStates = {State::pending, State::ready, State::unack, State::retry, State::dead};

bool is(const Key& key, const char* text) { return key.kind == Kind::text && key.text == text; }

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::size_t page_of(Size size) { return size.rows > kFrame + 1 ? size.rows - kFrame : 1; }

// The row that a key moves to. Unset: the key does not move.
std::optional<std::size_t> moved(const Key& key, std::size_t at, std::size_t count, std::size_t page) {
  if (count == 0) return std::nullopt;
  const std::size_t last = count - 1;
  if (key.kind == Kind::up || is(key, "k")) return at == 0 ? 0 : at - 1;
  if (key.kind == Kind::down || is(key, "j")) return std::min(last, at + 1);
  if (key.kind == Kind::page_up) return at < page ? 0 : at - page;
  if (key.kind == Kind::page_down) return std::min(last, at + page);
  if (key.kind == Kind::home || is(key, "g")) return 0;
  if (key.kind == Kind::end || is(key, "G")) return last;
  return std::nullopt;
}

std::size_t index_of(const std::vector<QueueSnapshot>& queues, const std::string& name) {
  const auto found =
      std::find_if(queues.begin(), queues.end(), [&](const QueueSnapshot& one) { return one.name == name; });
  return found == queues.end() ? 0 : static_cast<std::size_t>(found - queues.begin());
}

}  // namespace

ViewRequest Top::view_request() const {
  ViewRequest request;
  request.view = view_;
  if (view_ == View::queues) return request;
  request.queue = queue_;
  if (view_ == View::message) request.id = id_;
  if (view_ == View::message) return request;
  request.state = state_;
  request.cursor = cursors_.back();
  // The list of messages has one line more above it than the list of queues: the states.
  request.limit = std::clamp<std::size_t>(page_of(size_) - 1, 1, 1000);
  return request;
}

bool Top::is_current(const Snapshot& snapshot) const {
  if (!snapshot.request || snapshot.request->view != view_) return false;
  const ViewRequest& seen = *snapshot.request;
  if (view_ == View::message) return seen.queue == queue_ && seen.id == id_;
  return view_ == View::queues || (seen.queue == queue_ && seen.state == state_ && seen.cursor == cursors_.back());
}

std::vector<QueueSnapshot> Top::visible(const Snapshot& snapshot) const {
  std::vector<QueueSnapshot> queues;
  const std::string pattern = lower(filter_);
  for (const QueueSnapshot& queue : snapshot.queues) {
    if (lower(printable(queue.name)).find(pattern) != std::string::npos) queues.push_back(queue);
  }
  put_in_order(queues, sort_, other_way_);
  return queues;
}

void Top::press(const Key& key, const Snapshot& snapshot) {
  notices_read_ = snapshot.notices;
  hint_.clear();
  if (key.kind == Kind::control && key.text == "c") over_ = true;
  if (answer_question(key) || edit_filter(key)) return;
  if (shows_help_) {
    shows_help_ = false;
    return;
  }
  if (is(key, "?")) {
    shows_help_ = true;
    return;
  }
  if (is(key, "q") || key.kind == Kind::escape) return back();
  if (press_change(key, snapshot)) return;
  switch (view_) {
    case View::queues:
      return press_in_queues(key, snapshot);
    case View::messages:
      return press_in_messages(key, snapshot);
    case View::message:
      return press_in_message(key);
  }
}

void Top::back() {
  switch (view_) {
    case View::queues:
      over_ = filter_.empty();
      filter_.clear();
      break;
    case View::messages:
      view_ = View::queues;
      break;
    case View::message:
      view_ = View::messages;
      break;
  }
}

bool Top::answer_question(const Key& key) {
  if (!question_) return false;
  if (is(key, "y") || is(key, "Y")) confirmed_ = question_;
  question_.reset();
  return true;
}

bool Top::edit_filter(const Key& key) {
  if (!edits_filter_) return false;
  if (key.kind == Kind::text) filter_ += key.text;
  if (key.kind == Kind::backspace) {
    while (!filter_.empty() && (static_cast<unsigned char>(filter_.back()) & 0xC0U) == 0x80U) filter_.pop_back();
    if (!filter_.empty()) filter_.pop_back();
  }
  if (key.kind == Kind::escape) filter_.clear();
  if (key.kind == Kind::escape || key.kind == Kind::enter) edits_filter_ = false;
  return true;
}

void Top::press_in_queues(const Key& key, const Snapshot& snapshot) {
  const std::vector<QueueSnapshot> queues = visible(snapshot);
  const std::size_t at = index_of(queues, chosen_);
  if (const auto to = moved(key, at, queues.size(), page_of(size_))) {
    chosen_ = queues[*to].name;
  } else if (is(key, "s")) {
    sort_by_next(snapshot);
  } else if (is(key, "r")) {
    other_way_ = !other_way_;
  } else if (is(key, "/")) {
    edits_filter_ = true;
  } else if (key.kind == Kind::enter && !queues.empty()) {
    chosen_ = queue_ = queues[at].name;
    view_ = View::messages;
    const auto& counts = queues[at].counts;
    // Open the first of these states that has messages.
    open_state(counts.dead > 0      ? State::dead
               : counts.retry > 0   ? State::retry
               : counts.unack > 0   ? State::unack
               : counts.pending > 0 ? State::pending
                                    : State::ready);
  }
}

void Top::sort_by_next(const Snapshot& snapshot) {
  const QueueTable table(size_.columns, snapshot.queues);
  int next = static_cast<int>(sort_);
  do {
    next = (next + 1) % kSorts;
  } while (!table.shows(static_cast<Sort>(next)));
  sort_ = static_cast<Sort>(next);
  other_way_ = false;
}

bool Top::press_change(const Key& key, const Snapshot& snapshot) {
  const bool pauses = is(key, "p") && view_ != View::message;
  const bool of_message = view_ != View::queues && (is(key, "R") || is(key, "L") || is(key, "B"));
  if (!pauses && !of_message && !(view_ == View::queues && is(key, "R"))) return false;
  if (options_.read_only) {
    hint_ = "Nothing is changed with --read-only";
  } else if (view_ == View::queues) {
    const std::vector<QueueSnapshot> queues = visible(snapshot);
    if (queues.empty()) return true;
    const QueueSnapshot& queue = queues[index_of(queues, chosen_)];
    if (pauses) {
      ask({queue.counts.paused ? TopChange::Kind::resume : TopChange::Kind::pause, queue.name, {}});
    } else if (!queue.error.empty()) {
      hint_ = "This queue cannot be read";
    } else if (queue.counts.dead == 0) {
      hint_ = in_quotes(queue.name) + " has no dead letter";
    } else {
      ask({TopChange::Kind::redrive_all, queue.name, {}});
    }
  } else if (pauses) {
    ask({snapshot.queue.counts.paused ? TopChange::Kind::resume : TopChange::Kind::pause, queue_, {}});
  } else {
    const auto kind = is(key, "R")   ? TopChange::Kind::redrive
                      : is(key, "L") ? TopChange::Kind::release
                                     : TopChange::Kind::bury;
    const auto& messages = snapshot.page.messages;
    if (!is_current(snapshot)) return true;
    if (view_ == View::message && snapshot.message) ask_about(kind, *snapshot.message);
    if (view_ == View::messages && message_row_ < messages.size()) ask_about(kind, messages[message_row_]);
  }
  return true;
}

void Top::ask(TopChange change) { question_ = std::move(change); }

void Top::ask_about(TopChange::Kind kind, const delayqueue::MessageInfo& message) {
  hint_ = refusal_of(kind, message);
  if (hint_.empty()) ask({kind, queue_, message.id});
}

void Top::open_state(State state) {
  state_ = state;
  cursors_ = {""};
  message_row_ = 0;
}

void Top::press_in_messages(const Key& key, const Snapshot& snapshot) {
  const auto state = static_cast<std::size_t>(std::find(kStates.begin(), kStates.end(), state_) - kStates.begin());
  const auto& messages = snapshot.page.messages;
  const bool current = is_current(snapshot);
  if (key.kind == Kind::tab || key.kind == Kind::right) {
    open_state(kStates[(state + 1) % kStates.size()]);
  } else if (key.kind == Kind::back_tab || key.kind == Kind::left) {
    open_state(kStates[(state + kStates.size() - 1) % kStates.size()]);
  } else if (key.kind == Kind::text && key.text >= "1" && key.text <= "5" && key.text.size() == 1) {
    open_state(kStates[static_cast<std::size_t>(key.text[0] - '1')]);
  } else if (key.kind == Kind::page_up || key.kind == Kind::page_down) {
    const bool down = key.kind == Kind::page_down;
    if (down && (!current || snapshot.page.next.empty())) return;
    if (!down && cursors_.size() == 1) return;
    down ? cursors_.push_back(snapshot.page.next) : cursors_.pop_back();
    message_row_ = 0;
  } else if (key.kind == Kind::enter && current && message_row_ < messages.size()) {
    id_ = messages[message_row_].id;
    view_ = View::message;
    scrolled_ = 0;
  } else if (const auto to = moved(key, message_row_, messages.size(), page_of(size_))) {
    message_row_ = *to;
  }
}

void Top::press_in_message(const Key& key) {
  if (is(key, "x")) {
    hex_ = !hex_;
    scrolled_ = 0;
  } else if (const auto to = moved(key, scrolled_, most_scrolled_ + 1, page_of(size_))) {
    scrolled_ = *to;
  }
}

}  // namespace dqctl
