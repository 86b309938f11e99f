#include <delayqueue/producer.h>
#include "embedded/folder_servers.h"
#include "inspector/server_info.h"
