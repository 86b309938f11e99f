#include "serve/command_reads.h"

#include <delayqueue/error.h>

#include <exception>
#include <utility>

#include "listed_queues.h"
#include "output/text.h"
#include "queue_metrics.h"
#include "recorded_actions.h"
#include "serve/dead_reasons.h"
#include "serve/request.h"
#include "serve/workers.h"
#include "signals.h"
#include "stuck_reading.h"

namespace dqctl {
namespace {

constexpr std::chrono::seconds kLongestCheckWait{1};  // for another check
constexpr std::chrono::seconds kSlowLifetime{5};      // of answers that take long
constexpr std::chrono::seconds kQuickLifetime{1};
constexpr std::size_t kMostAnswers = 200;
constexpr std::size_t kMostQueues = 1000;  // whose actions are read
constexpr std::size_t kMostActions = 100;

}  // namespace

std::string CommandReads::answer(const std::string& what, Steady::duration lifetime,
                                 const std::function<std::string()>& read, Steady::duration longest_wait) {
  const std::unique_lock lock(mutex_, longest_wait);
  if (!lock.owns_lock()) throw HttpError(503, "cannot answer: others wait for answers of this kind; repeat it later");
  const auto found = kept_.find(what);
  if (found != kept_.end() && Steady::now() - found->second.at < lifetime) return found->second.text;
  if (kept_.size() >= kMostAnswers) kept_.clear();
  context_.use_short_timeouts(false);
  Kept kept;
  kept.text = read();
  if (interrupted()) throw HttpError(503, "cannot answer: the server ends");  // it may be a part
  kept.at = Steady::now();
  return (kept_[what] = std::move(kept)).text;
}

std::string CommandReads::stuck(const std::string& queue, const std::optional<delayqueue::Counts>& earlier) {
  return answer("stuck " + queue, kSlowLifetime, [&] {
    const StuckOptions options;
    std::vector<StuckReading> readings = read_stuck(context_, {queue}, options);
    if (readings.empty()) throw HttpError(503, "cannot answer: the server ends");
    StuckReading& reading = readings.front();
    reading.evidence.earlier = earlier;
    if (reading.error && reading.error->is_away) throw HttpError(503, reading.error->text);
    if (reading.error) throw Failure(reading.error->code, reading.error->text);
    const std::vector<StuckFinding> findings = findings_of(reading, options);
    return stuck_object(queue, findings.empty() ? Level::ok : findings.front().level, findings).text();
  });
}

std::string CommandReads::dead_reasons(const std::string& queue) {
  return answer("reasons " + queue, kSlowLifetime, [&] { return reasons_object(context_, queue).text(); });
}

std::string CommandReads::workers() {
  return answer("workers", kQuickLifetime, [&] { return workers_object(context_).text(); });
}

std::string CommandReads::actions(std::uint64_t version) {
  return answer("actions " + std::to_string(version), kSlowLifetime, [&] {
    std::vector<std::string> queues = context_.inspector("queues").queues();
    limit_names(queues, kMostQueues);
    std::vector<ActionRow> rows = read_actions(context_, queues).rows;
    if (rows.size() > kMostActions) rows.resize(kMostActions);
    std::string list;
    for (const ActionRow& row : rows) list += (list.empty() ? "" : ",") + action_object(row).text();
    return '[' + list + ']';
  });
}

std::string CommandReads::metrics(const std::vector<std::string>& queues) {
  return answer("metrics", kQuickLifetime, [&] {
    MetricsPage page = read_metrics(context_, queues);
    std::set<std::string> errors(page.errors.begin(), page.errors.end());
    for (const std::string& error : errors) {
      if (warn_ && errors_.count(error) == 0) warn_(error);
    }
    errors_ = std::move(errors);
    return std::move(page.text);
  });
}

void CommandReads::check_redis(const std::vector<std::string>& queues) {
  const auto read = [&] {
    if (!queues.empty()) {
      try {
        static_cast<void>(context_.inspector(queues.front()).counts());
        return std::string();
      } catch (const delayqueue::ConnectionError&) {
        throw;
      } catch (const std::exception&) {  // of this queue only, such as a key of a wrong type: metrics() tells it
      }
    }
    static_cast<void>(context_.inspector("queues").queues());
    return std::string();
  };
  answer("redis", kQuickLifetime, read, kLongestCheckWait);
}

}  // namespace dqctl
