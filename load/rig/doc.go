// Package rig is what the programs beside it stand on: the real binary and its servers as child processes, a provider that
// writes every request down, network links that can be broken, and what the kernel says of a process. It needs Linux.
//
// It judges nothing.
package rig
