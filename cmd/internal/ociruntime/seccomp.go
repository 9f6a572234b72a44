package ociruntime

import (
	"errors"
	"fmt"
	"slices"
)

// needed are the system calls without which no program in the container has a device. gorxe
// run names others that a profile forbids, or does without them.
var needed = []string{"seccomp", "memfd_create", "pidfd_open"}

// checkSeccomp refuses a profile under which gorxe run cannot give a device.
func (s spec) checkSeccomp() error {
	linux, err := s.object("linux")
	if err != nil || linux == nil {
		return err
	}
	profile, err := linux.object("seccomp")
	if err != nil || profile == nil {
		return err
	}
	rules, err := seccompRules(profile)
	if err != nil {
		return fmt.Errorf("linux.seccomp: %w", err)
	}
	for _, r := range rules {
		if r.action == "SCMP_ACT_NOTIFY" {
			return errors.New("linux.seccomp notifies another process, and the kernel allows one: " +
				"use a profile without SCMP_ACT_NOTIFY")
		}
	}
	for _, call := range needed {
		action := profile["defaultAction"]
		for _, r := range rules {
			if slices.Contains(r.names, call) {
				action = r.action
			}
		}
		if action != "SCMP_ACT_ALLOW" && action != "SCMP_ACT_LOG" {
			return fmt.Errorf("linux.seccomp forbids %s(2), which gorxe needs: allow it in the profile, "+
				"or start the container with --security-opt seccomp=unconfined", call)
		}
	}
	return nil
}

// seccompRule is a rule for all calls with these names.
type seccompRule struct {
	action any
	names  []string
}

// seccompRules returns the rules of a profile. A rule with arguments is for some calls only,
// and has no names here.
func seccompRules(profile spec) (rules []seccompRule, err error) {
	list, _ := profile["syscalls"].([]any)
	for _, r := range list {
		rule, _ := r.(map[string]any)
		names, err := spec(rule).strings("names")
		if err != nil {
			return nil, err
		}
		if args, _ := rule["args"].([]any); len(args) > 0 {
			names = nil
		}
		rules = append(rules, seccompRule{rule["action"], names})
	}
	return rules, nil
}
