// dqctl find
#include <delayqueue/error.h>

#include <algorithm>
#include <array>

#include "commands.h"
#include "filter.h"
#include "lines.h"
#include "output/table.h"
#include "pages.h"
#include "row_error.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::MessageInfo;
using delayqueue::State;

constexpr std::size_t kFoundStart = 64;  // bytes of a payload to show
constexpr std::array<State, 5> kSearchedStates = {State::pending, State::ready, State::unack, State::retry,
                                                  State::dead};

struct FindArgs {
  std::string text{};
  std::string in{};  // empty: an id if the text is one and is found, else payload
  std::uint64_t limit = 20;
};

// A pattern that matches every text with these bytes.
std::string pattern_for(const std::string& text) {
  std::string pattern = "*";
  for (const char c : text) pattern += (c == '*' || c == '?' || c == '\\' ? "\\" : "") + std::string(1, c);
  return pattern + '*';
}

class Search {
 public:
  Search(Context& context, const FindArgs& args)
      : context_(context),
        out_(context.out()),
        args_(args),
        queues_(context.inspector("queues").queues()),
        listing_(out_, {{"ID"}, {"QUEUE"}, {"STATE"}, {"WHEN"}, {"REASON"}, {"PAYLOAD"}}, "messages",
                 Object().add("text", args.text)),
        progress_(out_, "examined") {}

  Exit run() {
    const bool by_id = args_.in == "id" || (args_.in.empty() && is_id(args_.text));
    if (by_id) for_each_queue([this](const std::string& queue) { look_up(queue); });
    if (args_.in != "id" && found_ == 0) {
      args_.in == "reason" ? filter_.reason = pattern_for(args_.text) : filter_.match = pattern_for(args_.text);
      for_each_queue([this](const std::string& queue) { scan(queue); });
    }
    progress_.clear();
    return end();
  }

 private:
  // Calls `search` for each queue. One that cannot be read does not hide the others.
  template <class Each>
  void for_each_queue(const Each& search) {
    for (const std::string& queue : queues_) {
      if (interrupted() || full()) return;
      const auto error = read_row(context_, [&] { search(queue); });
      if (!error) continue;
      const bool is_new =
          std::none_of(unread_.begin(), unread_.end(), [&](const auto& one) { return one.first == queue; });
      if (is_new) unread_.emplace_back(queue, *error);
    }
  }

  // One request, to the partition that the id names.
  void look_up(const std::string& queue) {
    const auto found = context_.inspector(queue).find_all(args_.text, kFoundStart).front();
    if (found) add(queue, *found, context_.inspector(queue).counts().now);
  }

  void scan(const std::string& queue) {
    delayqueue::Inspector& inspector = context_.inspector(queue);
    const delayqueue::Counts counts = inspector.counts();
    for (const State state : kSearchedStates) {
      if (count_of(counts, state) == 0) continue;
      Walk walk(inspector, state, filter_, counts.now, kFoundStart);
      const std::uint64_t before = examined_;
      while (!full()) {
        const auto message = walk.next();
        examined_ = before + walk.examined();
        progress_.update(examined_);
        if (!message) break;
        add(queue, *message, counts.now);
      }
    }
  }

  void add(const std::string& queue, const MessageInfo& message, Time now) {
    ++found_;
    listing_.add({{id_text(message.id)},
                  {printable(queue), Colour::bold},
                  {delayqueue::to_string(message.state)},
                  {when_text(message, now)},
                  {cut(printable(message.reason), 40), Colour::red},
                  {payload_text(message, kFoundStart)}},
                 Object().add("queue", queue).append(message_object(message, "payload_start")));
  }

  bool full() const { return args_.limit > 0 && found_ >= args_.limit; }

  Exit end() {
    std::vector<Object> errors;
    for (const auto& [queue, error] : unread_) {
      errors.push_back(Object().add("queue", queue).add("error", printable(error.text)));
    }
    listing_.end(Object()
                     .add("examined", examined_)
                     .add("complete", !interrupted() && !full() && unread_.empty())
                     .add("errors", errors));
    for (const auto& [queue, error] : unread_) {
      out_.stderr_line("not searched to the end: " + in_quotes(queue) + ": " + printable(error.text));
    }
    if (interrupted()) out_.stderr_line("interrupted after " + counted(examined_, "message"));
    if (full() && !interrupted()) out_.stderr_line("there may be more; --limit 0 shows all");
    if (interrupted()) return found_ > 0 ? Exit::partly : Exit::interrupted;
    if (found_ == 0 && out_.is_table()) out_.stderr_line("found nothing in " + counted(queues_.size(), "queue"));
    if (unread_.empty()) return found_ > 0 ? Exit::done : Exit::not_found;
    return found_ > 0 || unread_.size() < queues_.size() ? Exit::partly : Exit::failed;
  }

  Context& context_;
  Output& out_;
  const FindArgs& args_;
  const std::vector<std::string> queues_;
  Listing listing_;
  Progress progress_;
  Filter filter_{};
  std::vector<std::pair<std::string, RowError>> unread_{};
  std::uint64_t found_ = 0, examined_ = 0;
};

Exit find_text(Context& context, const FindArgs& args) {
  if (args.text.empty()) throw Usage("TEXT: ''; expected an id, or a part of a payload or reason");
  if (args.in == "id" && !is_id(args.text))
    throw Usage("TEXT: " + in_quotes(args.text) + "; expected a UUID with --in id");
  return Search(context, args).run();
}

}  // namespace

void add_find(Cli& cli, Context& context) {
  const auto args = std::make_shared<FindArgs>();
  cli.add("find",
          "Finds messages in all queues by id, or by a part of their payload or reason; exit code 3 if none is found",
          {"find 0197f3a4-5b6c-7d8e-9f01-23456789abcd", "find '\"user\":42,'", "find --in reason timeout -o json"})
      .argument("TEXT", args->text,
                "An id is looked up in every queue, with one request each. Every other text, and an id that no message "
                "has, is searched for in the first 64 KiB of all payloads")
      .choice("--in", args->in, {"id", "payload", "reason"}, "Search only there")
      .number("--limit", args->limit, 0, 1'000'000'000, "End after this many messages; 0: find all (20)")
      .run([&context, args] { return find_text(context, *args); });
}

}  // namespace dqctl
