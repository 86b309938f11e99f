// Includes all public headers. The library is a queue of delayed messages in Redis, delivered at least once.
#pragma once

#include <delayqueue/consumer.h>
#include <delayqueue/error.h>
#include <delayqueue/inspector.h>
#include <delayqueue/message.h>
#include <delayqueue/options.h>
#include <delayqueue/private_server.h>
#include <delayqueue/producer.h>
#include <delayqueue/version.h>
