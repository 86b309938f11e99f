// All public headers: a queue of delayed messages, delivered at least once, kept in Redis.
#pragma once

#include <delayqueue/consumer.h>
#include <delayqueue/error.h>
#include <delayqueue/inspector.h>
#include <delayqueue/message.h>
#include <delayqueue/options.h>
#include <delayqueue/private_server.h>
#include <delayqueue/producer.h>
#include <delayqueue/version.h>
