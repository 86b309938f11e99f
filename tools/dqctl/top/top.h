// The screens of dqctl top: handles keys and draws. Has no access to the terminal or to Redis.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "output/canvas.h"
#include "top/changes.h"
#include "top/keys.h"
#include "top/poller.h"
#include "top/queue_table.h"

namespace dqctl {

struct TopOptions {
  std::string where{};  // the server, without a password
  milliseconds interval{2000};
  bool utc = false;
  bool read_only = false;  // no key changes a queue
};

class Top {
 public:
  explicit Top(TopOptions options) : options_(std::move(options)) {}

  void press(const Key& key, const Snapshot& snapshot);
  Canvas draw(Size size, const Snapshot& snapshot);

  ViewRequest view_request() const;
  bool over() const { return over_; }

  // The change that the user has confirmed. Each is returned once.
  std::optional<TopChange> take_confirmed() { return std::exchange(confirmed_, std::nullopt); }

 private:
  using View = ViewRequest::View;

  // A row of the detail view of a message.
  struct Row {
    bool is_field = false;
    std::string name{}, text{};
    Style style{};
  };

  std::vector<QueueSnapshot> visible(const Snapshot& snapshot) const;
  bool is_current(const Snapshot& snapshot) const;  // whether it has the data of the current view

  // Keys.
  bool answer_question(const Key& key);  // false: no question is on the screen
  bool edit_filter(const Key& key);
  void press_in_queues(const Key& key, const Snapshot& snapshot);
  void press_in_messages(const Key& key, const Snapshot& snapshot);
  void press_in_message(const Key& key);
  void sort_by_next(const Snapshot& snapshot);
  bool press_change(const Key& key, const Snapshot& snapshot);  // false: the key changes nothing
  void ask(TopChange change);
  void ask_about(TopChange::Kind kind, const delayqueue::MessageInfo& message);
  void open_state(delayqueue::State state);
  void back();

  // Drawing.
  void draw_bar(Canvas& canvas, const Snapshot& snapshot);
  void draw_queues(Canvas& canvas, const Snapshot& snapshot);
  void draw_messages(Canvas& canvas, const Snapshot& snapshot);
  void draw_message(Canvas& canvas, const Snapshot& snapshot);
  void draw_help(Canvas& canvas);
  void draw_foot(Canvas& canvas, const Snapshot& snapshot);
  void write_message(Line& line, const delayqueue::MessageInfo& message, Time now, bool selected);
  std::vector<Row> rows_of(const delayqueue::MessageInfo& message, Time now) const;
  std::string bar_text(const Snapshot& snapshot) const;
  std::string time_text(Time when) const { return options_.utc ? utc_text(when) : local_text(when); }

  const TopOptions options_;
  View view_ = View::queues;
  Size size_{};
  bool over_ = false;
  bool shows_help_ = false;
  std::uint64_t notices_read_ = 0;
  std::string finding_{};  // of the selected or opened queue
  std::string hint_{};     // why the last key did nothing
  std::optional<TopChange> question_{}, confirmed_{};

  // List of queues.
  Sort sort_ = Sort::name;
  bool other_way_ = false;
  std::string filter_{};
  bool edits_filter_ = false;
  std::string chosen_{};  // name of the selected queue: its row may move
  std::size_t first_row_ = 0;

  // List of messages of one queue.
  std::string queue_{};
  delayqueue::State state_ = delayqueue::State::pending;
  std::vector<std::string> cursors_ = {""};  // of this page and all pages before it
  std::size_t message_row_ = 0;

  // Detail view of one message.
  std::string id_{};
  bool hex_ = false;
  std::size_t scrolled_ = 0;
  std::size_t most_scrolled_ = 0;
};

}  // namespace dqctl
