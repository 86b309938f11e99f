// The limits of a queue in words, and as fields of an object.
#pragma once

#include "output/output.h"

#include <delayqueue/inspector.h>

#include <string>
#include <vector>

namespace dqctl {

std::string rate_limit_text(const delayqueue::Rate& rate);  // "100/s", "10 each 1m"

// What the limits of the queue are, and whether they hold it back now: "held back by its rate of 100/s, next in 8 ms;
// 50 of 50 running". Empty: it has none.
std::string limits_text(const delayqueue::Counts& counts);

// The same with the burst: "rate 100/s; at most 20 at once; 3 of 50 running".
std::string limits_with_burst(const delayqueue::Counts& counts);

// Of these, what holds the queue back now: "held back by its rate of 100/s, next in 8 ms". Empty: nothing does.
std::string held_back_text(const delayqueue::Counts& counts);

void add_limits(Object& object, const delayqueue::QueueLimits& limits);

// Adds `limits`: the limits, what counts against them, and the texts above. Null: it has none.
void add_limits_of(Object& object, const delayqueue::Counts& counts);

// The consumers of the queue that keep no limits, because their versions are older: "billing, pid 7 on host3, version
// 0.0.9". One whose version cannot be read is among them. Workers of the Go library have no entry in the registry.
// Empty also if the registry cannot be read.
std::vector<std::string> consumers_without_limits(delayqueue::Inspector& inspector);

}  // namespace dqctl
