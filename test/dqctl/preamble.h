// The preamble of the tests that run dqctl: that of all tests, and what fills queues, runs dqctl and reads its output.
#pragma once

#include "fill.h"
#include "parse_json.h"
#include "queue.h"
#include "run.h"
#include "support/test.h"

using nlohmann::json;
using test::at;
using test::Dqctl;
using test::DqctlOptions;
using test::Ran;
using test::run;
using test::with_input;
