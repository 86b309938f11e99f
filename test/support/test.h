// The preamble of the tests: doctest, the public and the standard headers, and the parts that most tests share.
#pragma once

#include <doctest/doctest.h>

#include "support/ledger.h"
#include "support/server.h"
#include "support/standard.h"
#include "support/text.h"
#include "support/with.h"

using namespace std::chrono_literals;  // NOLINT(google-global-names-in-headers)
using test::ack_all;
using test::ConsumerPtr;
using test::content_of;
using test::delayed;
using test::eventually;
using test::fresh_queue;
using test::Gate;
using test::has;
using test::kId;
using test::kPatience;
using test::Ledger;
using test::numbers;
using test::one_attempt;
using test::Queue;
using test::quick;
using test::Redis;
using test::thrown;
using test::with;
