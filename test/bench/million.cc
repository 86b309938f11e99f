// A million messages in one queue. Measures the server's time for single calls with so many messages in each state, and
// then a consumer that handles them all while another client sends a GET each millisecond.

#include "bench/bare.h"
#include "bench/drain.h"
#include "bench/part.h"
#include "bench/probe.h"
#include "bench/stall.h"
#include "bench/stock.h"
#include "store/moves.h"
#include "store/record.h"

namespace bench {
namespace {

using namespace delayqueue;
using store::kBatch;
using store::Moves;

const std::string kQueue = "bench";

const std::chrono::seconds kSoon{3};  // due before the drain starts

// Each function measures Scale::calls calls. Messages keep their state, except for those that a call removes.
struct Million {
  Bench& bench;
  Stall& stall;
  const Moves moves;
  Stock& stock;
};

void of_pending(const Million& of) {
  const std::size_t cancelled = of.stock.ids().size() / 5 * 2;  // the purges take the messages before this one
  of.stall.measure("cancel", [&](redis::Pipeline& pipeline, std::size_t i) -> CheckAnswer {
    return [answer = of.moves.cancel(pipeline, of.stock.ids()[cancelled + i])] {
      if (answer.get() != "pending") throw std::runtime_error("million: a cancel found no message");
    };
  });
  of.stall.measure("purge", [&](redis::Pipeline& pipeline, std::size_t) -> CheckAnswer {
    of.moves.purge_zset(pipeline, of.moves.keys().pending, kBatch, std::nullopt, 0);
    return {};
  });
  of.stall.measure("send", [&](redis::Pipeline& pipeline, std::size_t) -> CheckAnswer {
    const std::vector<std::string> ids = store::new_ids(kBatch);
    const std::string body = payload();
    std::vector<store::NewMessage> messages;
    for (const std::string& id : ids) messages.push_back({id, body});
    store::SendTerms terms;
    terms.due.delay = kSoon;
    terms.new_ids = true;
    of.moves.send(pipeline, messages, terms);
    return {};
  });
}

void of_unack(const Million& of) {
  const std::size_t acked = of.stock.ids().size() / 5 * 3;
  of.stall.measure("ack", [&](redis::Pipeline& pipeline, std::size_t call) -> CheckAnswer {
    std::vector<store::Receipt> receipts;
    for (std::size_t i = acked + call * kBatch; i < acked + (call + 1) * kBatch; ++i) {
      receipts.push_back({of.stock.ids().at(i), bare_due_us(i)});
    }
    return [answer = of.moves.ack(pipeline, receipts)] {
      if (answer.get() != std::string(kBatch, 'S')) throw std::runtime_error("million: an ack was refused");
    };
  });
  of.stall.measure("unack2retry", [&](redis::Pipeline& pipeline, std::size_t) -> CheckAnswer {
    return [answer = of.moves.unack2retry(pipeline)] {
      if (answer.get().moved != delayqueue::store::kReclaimBatch)
        throw std::runtime_error("million: an ended lease was not taken back");
    };
  });
}

void of_ready(const Million& of) {
  store::TakeLimits limits;
  limits.total = kBatch;
  limits.retry_max = 8;
  of.stall.measure("ready2unack", [&](redis::Pipeline& pipeline, std::size_t) -> CheckAnswer {
    return [answer = of.moves.ready2unack(pipeline, limits, kLater)] {
      if (answer.get().messages.size() != kBatch)
        throw std::runtime_error("million: ready2unack returned fewer messages than a full batch");
    };
  });
}

void of_pending_taken(const Million& of) {
  of.stall.measure("pending2unack", [&](redis::Pipeline& pipeline, std::size_t) -> CheckAnswer {
    const store::Watcher watcher{"bench", std::chrono::seconds(1)};
    return [answer = of.moves.pending2unack(pipeline, false, watcher, {kBatch, kBatch}, kLater)] {
      const std::optional<store::Taken> taken = answer.get().taken;
      if (!taken || taken->messages.size() != kBatch)
        throw std::runtime_error("million: pending2unack returned fewer messages than a full batch");
    };
  });
}

void stalls(const Million& of) {
  Progress& progress = of.bench.progress;
  progress.stage("of pending");
  of_pending(of);
  progress.stage("of unack");
  of.stock.pending_to_unack();
  of_unack(of);
  of.stock.unack_to_pending();
  progress.stage("of pending, taken");
  of.stock.keep_pending();
  of_pending_taken(of);
  of.stock.restore_pending();
  progress.stage("of ready");
  of.stock.keep_pending();
  of.stall.measure("pending2ready", [&](redis::Pipeline& pipeline, std::size_t) -> CheckAnswer {
    of.moves.pending2ready(pipeline, false, {"bench"});
    return {};
  });
  of.stock.pending_to_ready();
  of_ready(of);
  of.stock.restore_pending();
}

void drain(Bench& bench, std::size_t count) {
  const std::size_t part = count / 10;
  // A slow drain is cut short. The last messages are then those before the deadline.
  const auto deadline = std::max(bench.start + bench.scale.until, Clock::now() + std::chrono::seconds(5));
  Probe probe(bench.server.socket());
  std::vector<std::size_t> marks;
  for (std::size_t mark = part; mark <= count; mark += part / 10) marks.push_back(mark);
  if (marks.back() != count) marks.push_back(count);
  Drain drain(bench.server.url(), {kQueue}, 8, marks);
  const bool all = drain.reaches(count, deadline, bench.progress);
  const std::vector<double> waits = probe.waits();
  drain.stop();
  std::size_t last = 0;  // the last mark that was reached
  while (last + 1 < marks.size() && drain.mark(last + 1) > 0) ++last;
  std::size_t before = 0;  // the mark `part` messages before `last`
  while (marks[before] + part < marks[last]) ++before;
  if (before == last) throw std::runtime_error("backlog: less than 20% of the messages were handled in time");
  if (!all) {
    bench.progress.line("  the drain was cut short: " + std::to_string(drain.handled()) + " of " +
                        std::to_string(count) + " messages");
  }
  const auto between = static_cast<double>(marks[last] - marks[before]);
  bench.figures.add("backlog.first_100k_per_s", static_cast<double>(part) / drain.mark(0));
  bench.figures.add("backlog.last_100k_per_s", between / (drain.mark(last) - drain.mark(before)));
  bench.figures.add("probe_ms.p50", percentile(waits, 0.5));
  bench.figures.add("probe_ms.p999", percentile(waits, 0.999));
}

}  // namespace

void million(Bench& bench) {
  for (int i = 0; i < bench.scale.millions; ++i) {
    bench.server.flush();
    const auto keys = store::make_keys(kQueue, {});
    bench.progress.stage("fill");
    // Additional messages for those that the measured calls remove.
    Stock stock(bench.server, keys, bench.scale.million + (bench.scale.calls + 1) * kBatch);
    Stall stall(bench);
    stalls({bench, stall, store::Moves(keys), stock});
    bench.progress.stage("drain");
    drain(bench, stock.size(keys.pending));
  }
  bench.server.flush();
}

}  // namespace bench
