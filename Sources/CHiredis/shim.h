#include <stdio.h>
#include <hiredis/read.h>
#include <hiredis/hiredis.h>
