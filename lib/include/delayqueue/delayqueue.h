// A queue of delayed messages in Redis, delivered at least once. This header includes all public headers except asio.h,
// batch.h and testing.h.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/consumer.h>
#include <delayqueue/error.h>
#include <delayqueue/handler.h>
#include <delayqueue/inspector.h>
#include <delayqueue/log.h>
#include <delayqueue/message.h>
#include <delayqueue/metrics.h>
#include <delayqueue/producer.h>
#include <delayqueue/queue_admin.h>
#include <delayqueue/schedules.h>
#include <delayqueue/sender.h>
#include <delayqueue/server.h>
#include <delayqueue/version.h>
