// The Lua scripts of the moves. Each is the file scripts/lua/<name>.lua, built in unchanged. A name in this list that
// has no file is a link error.
#pragma once

#include "redis/script.h"

#include <vector>

namespace delayqueue::store::scripts {

extern const redis::Script send, pending2ready, ready2unack, ack, nack, renew, release, unack2retry, persist, gc,
    delete_orphaned_metadata, cancel, reschedule, redrive, bury, extend, purge, purge_ids, restore, forget, unlock,
    counts, page, find, check;

const std::vector<const redis::Script*>& all();

}  // namespace delayqueue::store::scripts
