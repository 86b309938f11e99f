// dqctl export, import
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <stdexcept>

#include "acting.h"
#include "commands.h"
#include "lines.h"
#include "pages.h"
#include "signals.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::MessageInfo;
using delayqueue::SendResult;
using delayqueue::Sent;
using delayqueue::State;

struct ExportArgs {
  std::string queue{};
  std::optional<State> state{};
  Filter filter{};
};

class Export {
 public:
  Export(Context& context, const ExportArgs& args)
      : out_(context.out()),
        inspector_(context.inspector(args.queue)),
        args_(args),
        counts_(context.counts(args.queue)) {}

  Exit run() {
    std::vector<State> states = {State::pending, State::ready, State::retry, State::unack, State::dead};
    if (args_.state) states = {*args_.state};
    std::uint64_t total = 0;
    for (const State state : states) total += count_of(counts_, state);
    std::size_t at = 0;
    std::unique_ptr<Pages> pages;
    std::vector<MessageInfo> some;
    const Steps steps =
        in_steps(out_, "exported", args_.filter.any() ? 0 : total, [&]() -> std::optional<std::uint64_t> {
          while (true) {
            if (pages == nullptr && at == states.size()) return std::nullopt;
            if (pages == nullptr) {
              pages = std::make_unique<Pages>(inspector_, states[at++], args_.filter, counts_, Pages::Payload::whole);
            }
            if (pages->next(some)) return write(some);
            foreign_ += pages->foreign();
            report_unfinished(out_, *pages);
            unfinished_ = unfinished_ || pages->unfinished();
            if (interrupted()) return std::nullopt;
            pages.reset();
          }
        });
    out_.flush();
    report_omissions();
    const std::string error = steps.interrupted ? "interrupted; the export is incomplete" : printable(steps.error);
    if (!error.empty()) out_.fail(error);
    const bool left = unfinished_ || bodiless_ + foreign_ > 0;
    return left && steps.code() == Exit::done ? Exit::partly : steps.code();
  }

 private:
  std::uint64_t write(const std::vector<MessageInfo>& messages) {
    std::uint64_t written = 0;
    for (const MessageInfo& message : messages) {
      const bool cancelled = message.state == State::unack && !message.retries;
      if (!message.size) ++bodiless_;
      if (cancelled) ++cancelled_;
      if (!message.size || cancelled) continue;
      if (message.held) ++held_;
      out_.line(line_of(message));
      ++written;
    }
    return written;
  }

  void report_omissions() {
    report_foreign_ids(out_, args_.queue, foreign_);
    if (bodiless_ > 0) out_.stderr_line("left out: " + counted(bodiless_, "message") + " without a body");
    if (cancelled_ > 0) out_.stderr_line("left out: " + counted(cancelled_, "message") + " cancelled in flight");
    if (held_ > 0) {
      out_.stderr_line("in flight: " + counted(held_, "message") +
                       "; after an import each is ready, and handled again");
    }
  }

  Output& out_;
  delayqueue::Inspector& inspector_;
  const ExportArgs& args_;
  const Counts counts_;
  std::uint64_t bodiless_ = 0, cancelled_ = 0, held_ = 0, foreign_ = 0;
  bool unfinished_ = false;  // of some state not all was read
};

struct ImportArgs {
  std::string queue{};
  std::string file{};
  std::uint64_t longest = kLongestLine;
  bool dry_run = false;
  bool replace = false;
};

// What an edit may have changed.
constexpr std::array<const char*, 4> kDifferences = {"payload", "headers", "retries", "time"};

// For each of these, whether the message in the queue has another one than the line. Retries and time change while a
// message is delivered, so they are compared only if it is as it was.
std::array<bool, 4> differences(const MessageInfo& line, const MessageInfo& stored) {
  const auto ms = [](const auto& at) { return std::chrono::floor<std::chrono::milliseconds>(at); };
  const bool same_state = line.state == stored.state && line.deliveries == stored.deliveries;
  const bool timed = same_state && line.state == State::pending && line.at && stored.at;
  return {stored.size != line.size || stored.payload != line.payload, stored.headers != line.headers,
          same_state && stored.state != State::dead && stored.retries != line.retries,
          timed && ms(*line.at) != ms(*stored.at)};
}

class Import {
 public:
  Import(Context& context, const ImportArgs& args)
      : context_(context),
        out_(context.out()),
        admin_(context.admin(args.queue)),
        inspector_(context.inspector(args.queue)),
        args_(args),
        lines_(args.file, static_cast<std::size_t>(args.longest)) {}

  Exit run() {
    const std::string verb = args_.dry_run ? "read" : "imported";
    std::uint64_t unanswered = 0;
    const auto step = [&]() -> std::optional<std::uint64_t> {
      const std::vector<MessageInfo> messages = read();
      if (messages.empty() || interrupted()) return std::nullopt;
      if (!args_.dry_run) {
        unanswered = messages.size();
        const std::uint64_t done = restore(messages);
        unanswered = 0;
        return done;
      }
      for (const MessageInfo& message : messages) count(message);
      return messages.size();
    };
    const Steps steps = in_steps(out_, verb, 0, step, &unanswered);
    if (!args_.dry_run) context_.note_change(args_.queue, created_ + replaced_, steps.unconfirmed);
    if (failed_ > kErrorsShown) {
      out_.stderr_line("and " + counted(failed_ - kErrorsShown, "more line") + " failed; -o json has the first 100");
    }
    show(steps);
    return steps.code(failed_ + differing_ > 0);
  }

 private:
  std::vector<MessageInfo> read() {
    constexpr std::size_t kBatch = 512;
    constexpr std::size_t kBatchBytes = 4U << 20U;
    std::vector<MessageInfo> messages;
    numbers_.clear();
    std::string line;
    for (std::size_t bytes = 0; messages.size() < kBatch && bytes < kBatchBytes;) {
      try {
        if (!lines_.next(line)) break;
        messages.push_back(message_in(line));
        numbers_.push_back(lines_.number());
        bytes += messages.back().payload.size();
      } catch (const BadLine& error) {
        fail(lines_.number(), error.what());
      }
    }
    return messages;
  }

  // Restores the messages. Returns how many are in the queue now.
  std::uint64_t restore(const std::vector<MessageInfo>& messages) {
    try {
      return record(messages, 0, admin_.restore(messages, {args_.replace}));
    } catch (const std::invalid_argument&) {  // one of them is invalid, and nothing was stored
    }
    std::uint64_t done = 0;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      try {
        done += record(messages, i, admin_.restore({messages[i]}, {args_.replace}));
      } catch (const std::invalid_argument& error) {
        fail(numbers_[i], error.what());
      }
    }
    return done;
  }

  std::uint64_t record(const std::vector<MessageInfo>& messages, std::size_t first, const std::vector<Sent>& sent) {
    std::uint64_t done = 0;
    std::vector<const MessageInfo*> existed;
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const MessageInfo& message = messages[first + i];
      const SendResult result = sent[i].result;
      if (result == SendResult::kept) {
        fail(numbers_[first + i], messages[first + i].id + " was not imported: another message has its unique key");
        continue;
      }
      if (result == SendResult::cancelled || result == SendResult::held) {
        ++(result == SendResult::held ? held_ : cancelled_);
        fail(numbers_[first + i],
             result == SendResult::held
                 ? sent[i].id + " is in flight, and was not replaced; try again when its delivery is over"
                 : held_text("import", sent[i].id));
        continue;
      }
      ++(result == SendResult::created ? created_ : result == SendResult::replaced ? replaced_ : existed_);
      if (result == SendResult::existed) existed.push_back(&message);
      count(message);
      ++done;
    }
    compare(existed);
    return done;
  }

  // Counts which of the messages that existed are not those of the file. One that has been handled since is not
  // counted.
  void compare(const std::vector<const MessageInfo*>& existed) {
    std::vector<std::string> ids;
    std::size_t longest = 0;
    for (const MessageInfo* const message : existed) {
      ids.push_back(message->id);
      longest = std::max(longest, message->payload.size());
    }
    if (ids.empty()) return;
    const auto stored = inspector_.find_all(ids, longest);
    for (std::size_t i = 0; i < existed.size(); ++i) {
      if (!stored[i]) continue;
      const auto differs = differences(*existed[i], *stored[i]);
      if (std::find(differs.begin(), differs.end(), true) != differs.end()) ++differing_;
      for (std::size_t field = 0; field < differs.size(); ++field) of_field_[field] += differs[field] ? 1 : 0;
    }
  }

  // ", 8,000 existed, of which 7,990 differ (payload 7,990); --replace overwrites them"
  std::string existed_text() const {
    if (existed_ == 0) return "";
    std::string text = ", " + count_text(existed_) + " existed";
    if (differing_ == 0) return text;
    std::string fields;
    for (std::size_t i = 0; i < of_field_.size(); ++i) {
      if (of_field_[i] == 0) continue;
      fields += (fields.empty() ? "" : ", ") + std::string(kDifferences[i]) + ' ' + count_text(of_field_[i]);
    }
    return text + " and stay as they are, of which " + count_text(differing_) + " differ from the file (" + fields +
           "); --replace overwrites them";
  }

  void count(const MessageInfo& message) { ++(message.state == State::dead ? dead_ : alive_); }

  void fail(std::uint64_t line, const std::string& what) {
    constexpr std::size_t kErrorsKept = 100;
    if (++failed_ <= kErrorsShown) out_.stderr_line(lines_.where(line) + ": " + printable(what));
    if (errors_.size() < kErrorsKept) errors_.push_back(Object().add("line", line).add("error", printable(what)));
  }

  void show(const Steps& steps) {
    if (!out_.is_table()) {
      Object object;
      object.add("queue", args_.queue).add("dry_run", args_.dry_run).add("created", created_).add("existed", existed_);
      object.add("replaced", replaced_).add("differing", differing_).add("held", held_);
      object.add("cancelled", cancelled_).add("alive", alive_).add("dead", dead_);
      object.add("failed", failed_).add("errors", errors_).add("unconfirmed", steps.unconfirmed);
      add_ending(object, steps);
      out_.object(object);
    } else if (args_.dry_run) {
      out_.line("dry run: " + counted(alive_ + dead_, "message") + ", of which " + count_text(dead_) + " dead" + bad());
    } else {
      out_.line("imported " + counted(created_, "message") + " into " + in_quotes(args_.queue) +
                (replaced_ > 0 ? ", replaced " + count_text(replaced_) : "") + existed_text() + bad());
    }
  }

  std::string bad() const { return failed_ > 0 ? "; " + counted(failed_, "line") + " failed" : ""; }

  static constexpr std::uint64_t kErrorsShown = 20;

  Context& context_;
  Output& out_;
  delayqueue::QueueAdmin& admin_;
  delayqueue::Inspector& inspector_;
  const ImportArgs& args_;
  LineReader lines_;
  std::vector<std::uint64_t> numbers_{};  // line numbers of the messages in the current batch
  std::vector<Object> errors_{};
  std::uint64_t created_ = 0, existed_ = 0, replaced_ = 0, cancelled_ = 0, held_ = 0, alive_ = 0, dead_ = 0,
                failed_ = 0;
  std::uint64_t differing_ = 0;              // of those that existed
  std::array<std::uint64_t, 4> of_field_{};  // the same, for each of kDifferences
};

}  // namespace

void add_export(Cli& cli, Context& context) {
  const auto args = std::make_shared<ExportArgs>();
  Command& command =
      cli.add("export", "Writes whole messages as lines of JSON, for import; pause and drain a busy queue first",
              {"export orders > orders.ndjson", "export orders --state dead --reason 'no such*' > dead.ndjson",
               "-u redis://old export orders | dqctl -u redis://new import orders -"});
  command.argument("QUEUE", args->queue, "The queue")
      .state("--state", args->state, "Only this one: pending, ready, unack, retry or dead");
  add_filter(command, args->filter);
  add_partition(command, context);
  command.run([&context, args] { return Export(context, *args).run(); });
}

void add_import(Cli& cli, Context& context) {
  const auto args = std::make_shared<ImportArgs>();
  cli.add("import",
          "Restores the messages of an export or a backup: dead ones dead, pending ones for their time, all others "
          "ready. Existing messages stay as they are, so it may be run again; with --replace they become those of the "
          "file",
          {"import orders dead.ndjson", "import orders orders.ndjson --dry-run",
           "import orders edited.ndjson --replace"})
      .argument("QUEUE", args->queue, "The queue; it comes into being with its first message")
      .argument("FILE", args->file, "The file; - for stdin")
      .custom(
          "--longest-line", [args](const std::string& value) { args->longest = parse_size("--longest-line", value); },
          "SIZE", "Lines that are longer are refused (85M: a payload of 64 MiB in base64)")
      .flag("--replace", args->replace, "Overwrite messages that exist, except those in flight")
      .flag("--dry-run", args->dry_run, "Only read it, and show what is in it")
      .run([&context, args] { return Import(context, *args).run(); });
}

}  // namespace dqctl
