package main

import (
	"encoding/json"
	"net"
	"net/http"
)

type restGroup struct {
	TeamID     int64          `json:"team_id"`
	Token      string         `json:"token"`
	Name       string         `json:"name"`
	ProvidedID string         `json:"provided_id"`
	Properties map[string]any `json:"properties"`
}

type restAnswer struct {
	Success      int       `json:"success"`
	NewUserGroup bool      `json:"new_user_group"`
	UserGroup    restGroup `json:"user_group"`
}

// serveRest runs a typical JSON API with net/http and rueidis.
func serveRest(listener net.Listener, work *Work) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/user", func(w http.ResponseWriter, r *http.Request) {
		group, err := work.read(r.Context(), r.Header.Get("Authorization"), r.URL.Query().Get("user_group_id"))
		if err != nil {
			http.Error(w, "failed", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(restAnswer{
			Success:   1,
			UserGroup: restGroup{group.TeamID, group.Token, group.Name, group.ProvidedID, group.Properties},
		})
	})
	return http.Serve(listener, mux)
}
