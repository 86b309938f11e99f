// Input of the test layers/breach.
#include <cctz/time_zone.h>
#include "consumer/link.h"
#include "queue/endpoint.h"
