// The processes of a run. Each runs this program with "key=value" arguments; see crew.cc.
#pragma once

#include <delayqueue/client.h>

#include "chaos/journal.h"

namespace chaos {

inline constexpr int kUncleanStop = 3;  // exit code: stop() was false

// With old=1 a process stands for a version before partitions: it knows partition 0 only.

// How a producer or worker with these arguments connects.
delayqueue::Client client_of(const Arguments& arguments);

// A worker: handles messages until SIGTERM. Writes for every delivery <n> of message <id>:
//   begin <id> <n> <token> <attempt> <held 0|1>
//   held <id> <n>                       repeated during a long delivery while the lease is held
//   lost <id> <n>                       message.lease_lost() became true
//   headers <id> <n>                    they are not those that were sent
//   payload <id> <n>                    it is not the one that was sent
//   verdict <id> <n> <what> <last us>   with the last time at which the lease was held (0: never)
// For every event acked, nacked, retried or dead_lettered with ids: "<event> <id>". For log lines: "log <severity>
// <text>".
int work(const Arguments& arguments);

// A producer: sends messages until SIGTERM. Writes for every message:
//   sending <token> <due us> <retries> <kind>   before the first try
//   again <token>                       before every other try, and before it repeats a send that was acknowledged
//   sent <token> <id> <created 0|1>     acknowledged
//   doubt <token> <id>                  no answer; sent again with this id
//   refused <token>                     Redis refused it; sent again
//   cancelling|rescheduling <id> [due us], then canceled|rescheduled <id> <outcome>, or ..._doubt, ..._refused <id>
int produce(const Arguments& arguments);

// A worker in Go, until SIGTERM: see go_worker.cc.
int work_in_go(const Arguments& arguments);

}  // namespace chaos
