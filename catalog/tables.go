package catalog

// IsCore reports whether name is one of the tools that an agent works with all
// the time and knows without a definition. They stay visible unless Config.Defer
// names them.
func IsCore(name string) bool {
	switch name {
	case "web_search", "web_extract", "terminal", "process_manage", "read_file", "write_file", "patch", "search_files",
		"vision_analyze", "image_generate", "skills_list", "skill_view", "skill_manage",
		"browser_navigate", "browser_snapshot", "browser_click", "browser_type", "browser_scroll", "browser_back",
		"browser_press", "browser_get_images", "browser_vision", "browser_console", "browser_cdp", "browser_dialog",
		"browser_vault_list", "browser_vault_unlock", "browser_vault_fill", "browser_vault_save_login",
		"browser_vault_enter_code", "browser_exec",
		"text_to_speech", "todo_list", "memory", "session_search", "clarify", "execute_code", "delegate_task", "cronjob_manage",
		"ha_list_entities", "ha_get_state", "ha_list_services", "ha_call_service",
		"kanban_show", "kanban_list", "kanban_complete", "kanban_block", "kanban_request_review", "kanban_request_changes",
		"kanban_heartbeat", "kanban_comment", "kanban_create", "kanban_link", "kanban_unblock", "kanban_attach",
		"kanban_attach_url", "kanban_attachments",
		"computer_use", ManageConnections:
		return true
	}
	return false
}

// DefaultDefer are the names that are deferred unless Config.Defer says
// otherwise: tools that most turns do not need.
func DefaultDefer() []string {
	return []string{
		"computer_use", "session_search", "image_generate", "todo_list", "process_manage", "cronjob_manage",
		"drive_preview", "gui_tour", "desktop_preview", "annotate_preview", "show_tip", "desktop_project",
		"close_terminal", "apply_layout", "read_terminal", "read_window_below", "focus_pane",
	}
}

// direct reports whether the tools of a plugin's toolset stay visible.
func direct(toolset string) bool {
	switch toolset {
	case "desktop_ui", "project", "setup":
		return true
	}
	return false
}

func set(names ...string) map[string]struct{} {
	m := make(map[string]struct{}, len(names))
	for _, n := range names {
		m[n] = struct{}{}
	}
	return m
}

func has(m map[string]struct{}, name string) bool {
	_, ok := m[name]
	return ok
}
