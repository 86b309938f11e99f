#include "run/loop.h"
#include "store/store.h"
