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
using test::err_has;
using test::err_is;
using test::err_lacks;
using test::expect;
using test::holds;
using test::lines_of;
using test::out_has;
using test::out_is;
using test::out_lacks;
using test::parse_json;
using test::Ran;
using test::run;
using test::with_input;
