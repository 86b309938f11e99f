// Every call of the library reads every field that another user of the same Redis can write, with every hostile value.
// Nothing crashes or hangs, no error holds control characters, and other messages are delivered.
#include "support/test.h"

#include "hostile_queue.h"
#include "lines.h"
#include "output/text.h"
#include "support/sanitized.h"

using delayqueue::Consumer;
using delayqueue::HeldMessages;
using delayqueue::Inspector;
using delayqueue::Producer;
using delayqueue::QueueAdmin;
using delayqueue::State;
using test::HostileField;
using test::HostileValue;

namespace {

// One client of each kind for the hostile queue.
struct Clients {
  Inspector inspector{test::server().url(), test::kQueue};
  QueueAdmin admin{test::server().url(), test::kQueue};
  Producer producer{test::server().url(), test::kQueue};
};

struct Call {
  const char* name;
  std::function<void(Clients&)> run;
};

// Reading calls come first: the others change the queue.
const std::vector<Call>& calls() {
  static const std::vector<Call> kCalls = {
      {"counts", [](Clients& clients) { static_cast<void>(clients.inspector.counts()); }},
      {"list",
       [](Clients& clients) {
         for (const State state : {State::pending, State::ready, State::unack, State::retry, State::dead}) {
           auto options = with(&delayqueue::ListOptions::limit, 2);
           do {
             const auto page = clients.inspector.list(state, options);
             options.cursor = page.next;
           } while (!options.cursor.empty());
         }
       }},
      {"find_all", [](Clients& clients) { static_cast<void>(clients.inspector.find_all(test::all_ids())); }},
      {"find one", [](Clients& clients) { static_cast<void>(clients.inspector.find(test::spoiled_id("unack"))); }},
      {"paused", [](Clients& clients) { static_cast<void>(clients.inspector.paused()); }},
      {"workers", [](Clients& clients) { static_cast<void>(clients.inspector.workers()); }},
      {"actions", [](Clients& clients) { static_cast<void>(clients.inspector.actions()); }},
      {"record",
       [](Clients& clients) {
         clients.admin.record({{}, "me@here", 1, "done", "a test"});
       }},
      {"queues", [](Clients& clients) { static_cast<void>(clients.inspector.queues()); }},
      {"server", [](Clients& clients) { static_cast<void>(clients.inspector.server()); }},
      {"check",
       [](Clients& clients) {
         const auto options = with(&delayqueue::CheckOptions::recheck_after, 0ms);
         for (const auto& finding : clients.admin.check(options).findings) {
           CHECK_FALSE(test::is_unsafe(finding.description + finding.repair));
         }
       }},
      {"send",
       [](Clients& clients) {
         const auto later = delayed(1h);
         clients.producer.send("sent for later", later);
       }},
      {"send again",
       [](Clients& clients) {
         for (const std::string& id : test::all_ids()) {
           delayqueue::OutgoingMessage message{"again", {}};
           message.options.id = id;
           clients.producer.send_batch(std::vector<delayqueue::OutgoingMessage>{message});
         }
       }},
      {"release one",
       [](Clients& clients) { static_cast<void>(clients.admin.release({test::spoiled_id("pending")})); }},
      {"extend",
       [](Clients& clients) { static_cast<void>(clients.admin.extend(test::all_ids(), 1s, HeldMessages::force)); }},
      {"reschedule",
       [](Clients& clients) {
         static_cast<void>(clients.admin.reschedule(
             {test::spoiled_id("pending"), test::spoiled_id("ready"), test::spoiled_id("retry")},
             with(&delayqueue::RescheduleOptions::delay, 1h)));
       }},
      {"reschedule one",
       [](Clients& clients) {
         static_cast<void>(
             clients.producer.reschedule(test::spoiled_id("pending"), with(&delayqueue::RescheduleOptions::delay, 2h)));
       }},
      {"release",
       [](Clients& clients) { static_cast<void>(clients.admin.release(test::all_ids(), HeldMessages::force)); }},
      {"bury",
       [](Clients& clients) {
         static_cast<void>(clients.admin.bury({test::spoiled_id("unack"), test::spoiled_id("pending")},
                                              with(&delayqueue::BuryOptions::held, HeldMessages::force)));
       }},
      {"redrive", [](Clients& clients) { static_cast<void>(clients.admin.redrive(test::all_ids())); }},
      {"cancel", [](Clients& clients) { static_cast<void>(clients.producer.cancel(test::spoiled_id("retry"))); }},
      {"repair",
       [](Clients& clients) {
         delayqueue::CheckOptions options;
         options.recheck_after = 0ms;
         options.repair = true;
         static_cast<void>(clients.admin.check(options));
       }},
  };
  return kCalls;
}

// The text of the exception that the call throws; empty if none.
std::string failure_of(const std::function<void()>& call, bool& reply_error) {
  reply_error = false;
  try {
    call();
    return "";
  } catch (const delayqueue::ReplyError& error) {
    reply_error = true;
    return error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
}

// The faults of a consumer of this queue until it has handled the payload "healthy"; empty if none.
std::string delivery_fault(const std::string& queue, bool holds_up, bool settles = true) {
  std::atomic<bool> healthy{false}, foreign{false}, unsafe{false};
  delayqueue::ConsumerOptions options;
  options.concurrency = 2;
  options.tuning.poll_interval = 100ms;
  options.logger = [&](const delayqueue::LogEntry& entry) {
    for (const std::string& text : {entry.line, entry.text, entry.server, entry.message_id}) {
      unsafe = unsafe || test::is_unsafe(text);
    }
  };
  const auto handle = [&](const delayqueue::Message& message) {
    if (!dqctl::is_id(message.id())) foreign = true;
    if (message.payload() == "healthy") healthy = true;
    return !message.id().empty() && message.id().back() == '2' ? delayqueue::nack("\x1b[2J") : delayqueue::ack();
  };
  Consumer consumer(test::server().url(), queue, handle, options);
  consumer.start();
  if (holds_up) {
    std::this_thread::sleep_for(5ms);
  } else {
    test::eventually([&] { return healthy.load(); });
  }
  std::string fault;
  if (!consumer.stop(settles ? 10s : 100ms) && settles) fault += "does not stop; ";
  if (foreign) fault += "a handler got an id that is no UUID; ";
  if (unsafe) fault += "unsafe words in a log line; ";
  if (!healthy && !holds_up) fault += "a healthy message is not delivered; ";
  return fault;
}

// Runs the cases of one field and returns their number.
void run_field(const HostileField& field, const HostileValue& value, test::Watchdog& watchdog,
               std::set<std::string>& faults) {
  const std::string name = field.name + " = " + value.name;
  bool reply_error = false;
  const auto attempt = [&](const std::string& what, const std::function<void()>& call) {
    watchdog.step(name + ": " + what);
    const std::string failure = failure_of(call, reply_error);
    const std::string shown = dqctl::printable(failure).substr(0, 200);
    if (test::is_unsafe(failure)) faults.insert(name + ": " + what + ": unsafe words: " + shown);
    if (!failure.empty() && !(field.wrong_type && reply_error)) faults.insert(name + ": " + what + ": " + shown);
    return failure.empty();
  };
  Clients clients;
  for (const Call& call : calls()) {
    attempt(call.name, [&] { call.run(clients); });
  }
  const bool sent = attempt("send for now", [&] { clients.producer.send("healthy"); });
  std::string fault;
  attempt("consumer", [&] { fault = delivery_fault(test::kQueue, field.holds_up || !sent, !field.wrong_type); });
  if (!fault.empty()) faults.insert(name + ": " + fault);
}

void check_delivery_beside(const std::string& name, test::Watchdog& watchdog, std::set<std::string>& faults) {
  watchdog.step(name + ": beside");
  Producer(test::server().url(), test::kBeside).send("healthy");
  const std::string fault = delivery_fault(test::kBeside, false);
  if (!fault.empty()) faults.insert(name + ": beside: " + fault);
}

std::string listed(const std::set<std::string>& faults) {
  std::string text;
  for (const std::string& fault : faults) text += fault + '\n';
  return text;
}

// `few`: the values for fields that are not read as numbers.
void run_all(const std::vector<HostileField>& fields, const std::vector<HostileValue>& values, std::size_t few = 1000) {
  test::Watchdog watchdog;
  std::set<std::string> faults;
  int cases = 0, refused = 0;
  std::size_t turn = 0;
  for (const HostileField& field : fields) {
    ++turn;
    for (std::size_t i = 0; i < values.size() && (field.number || i < few); ++i) {
      // Under a sanitizer a case takes five times as long: each field gets another third of the values.
      if (TEST_SANITIZED && values.size() > 1 && (turn + i) % 3 != 0) continue;
      const HostileValue& value = values[i];
      test::build_queue();
      if (!test::spoil(field, value.bytes)) {
        ++refused;
        continue;
      }
      ++cases;
      run_field(field, value, watchdog, faults);
    }
    check_delivery_beside(field.name, watchdog, faults);
  }
  MESSAGE(cases, " cases; ", refused, " that Redis refuses");
  CHECK_MESSAGE(faults.empty(), listed(faults));
}

}  // namespace

TEST_CASE("hostile Redis: every call of the library withstands every hostile text in every field") {
  run_all(test::hostile_fields(), test::hostile_strings());
}

TEST_CASE("hostile Redis: every call of the library withstands every hostile number in every field") {
  run_all(test::hostile_fields(), test::hostile_numbers(), 2);
}

TEST_CASE("hostile Redis: every call of the library withstands every key as every other type") {
  run_all(test::hostile_types(), {test::hostile_strings().front()});
}
