// Messages that must be handled later, at least once, and never lost, on nothing but a Redis.
#pragma once

#include <delayqueue/consumer.h>
#include <delayqueue/error.h>
#include <delayqueue/inspector.h>
#include <delayqueue/message.h>
#include <delayqueue/options.h>
#include <delayqueue/private_server.h>
#include <delayqueue/producer.h>
#include <delayqueue/version.h>
