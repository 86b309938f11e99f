// Input of the test layers/breach; breach.txt lists the includes that the layer check must report.
#include <delayqueue/producer.h>
#include "embedded/folder_servers.h"
#include "inspector/server_info.h"
