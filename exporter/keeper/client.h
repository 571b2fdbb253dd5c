/* SPDX-License-Identifier: Apache-2.0
 *
 * main's side of the keeper protocol: the keeper's own socket, and openers that it forks when main asks for one more.
 */
#pragma once
#include "exporter/keeper/keeper.h"

#define KEEPER_TIMEOUT_MS 5000

/* The socket becomes the keeper's. Requests wait at most timeout_ms (-ETIMEDOUT); a late reply is dropped with its descriptors. */
struct keeper *keeper_client_new(int sock, int timeout_ms);
