// A queue of delayed messages in Redis, delivered at least once. This header includes all public headers except asio.h,
// batch.h and testing.h.
#pragma once

#include <delayqueue/actions.h>
#include <delayqueue/backoff.h>
#include <delayqueue/client.h>
#include <delayqueue/consumer.h>
#include <delayqueue/consumer_options.h>
#include <delayqueue/counts.h>
#include <delayqueue/durability.h>
#include <delayqueue/error.h>
#include <delayqueue/events.h>
#include <delayqueue/handler.h>
#include <delayqueue/headers.h>
#include <delayqueue/ids.h>
#include <delayqueue/inspector.h>
#include <delayqueue/integrity.h>
#include <delayqueue/message.h>
#include <delayqueue/message_page.h>
#include <delayqueue/message_ref.h>
#include <delayqueue/metrics.h>
#include <delayqueue/partitions.h>
#include <delayqueue/private_server.h>
#include <delayqueue/producer.h>
#include <delayqueue/producer_options.h>
#include <delayqueue/queue_admin.h>
#include <delayqueue/queue_admin_options.h>
#include <delayqueue/queue_name.h>
#include <delayqueue/send_options.h>
#include <delayqueue/sender.h>
#include <delayqueue/server_info.h>
#include <delayqueue/stats.h>
#include <delayqueue/stop_signals.h>
#include <delayqueue/subscription.h>
#include <delayqueue/types.h>
#include <delayqueue/version.h>
#include <delayqueue/workers.h>
