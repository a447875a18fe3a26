package decoder

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/slotferry/slotferry/internal/slotcatalog"
	"github.com/slotferry/slotferry/protocol"
)

// standbyQuery reads what Standby holds but the slots, the same on every version
// from 13 on. Settings come as text; what a version lacks comes as NULL.
const standbyQuery = `
SELECT (pg_catalog.pg_control_system()).system_identifier,
       pg_catalog.current_setting('server_version_num')::int,
       pg_catalog.pg_is_in_recovery(),
       coalesce(pg_catalog.pg_last_wal_replay_lsn(), '0/0')::text,
       coalesce(pg_catalog.pg_last_wal_receive_lsn(), '0/0')::text,
       coalesce((SELECT received_tli FROM pg_catalog.pg_stat_wal_receiver WHERE status = 'streaming'), 0),
       pg_catalog.current_setting('wal_level'),
       pg_catalog.current_setting('hot_standby_feedback')::bool,
       extract(epoch FROM pg_catalog.current_setting('wal_receiver_status_interval')::interval)::float8,
       CASE WHEN pg_catalog.current_setting('primary_slot_name') = '' THEN ''
            ELSE coalesce((SELECT slot_name FROM pg_catalog.pg_stat_wal_receiver),
                          pg_catalog.current_setting('primary_slot_name')) END,
       coalesce(pg_catalog.current_setting('sync_replication_slots', true), 'off')::bool,
       pg_catalog.current_setting('max_replication_slots')::int,
       extract(epoch FROM coalesce(pg_catalog.current_setting('idle_replication_slot_timeout', true), '0')::interval)::float8,
       extract(epoch FROM pg_catalog.current_setting('recovery_min_apply_delay')::interval)::float8,
       pg_catalog.current_setting('output_plugin_libraries', true),
       CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_is_wal_replay_paused() ELSE false END,
       CASE WHEN pg_catalog.pg_is_in_recovery() THEN 0 ELSE
            ('x' || substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))::bit(32)::int8 END,
       pg_catalog.current_setting('data_directory')`

// standbyFacts is what one look at the standby brings beside the View's part.
type standbyFacts struct {
	Standby
	dataDirectory string
}

// readStandby looks at the standby once.
func readStandby(ctx context.Context, conn *pgx.Conn) (standbyFacts, error) {
	var f standbyFacts
	var sysid int64
	var replay, receive string
	var tli, timeline int64
	var statusInterval, idleTimeout, applyDelay float64
	var plugins *string
	err := conn.QueryRow(ctx, standbyQuery).Scan(&sysid, &f.ServerVersionNum, &f.InRecovery, &replay, &receive, &tli,
		&f.WALLevel, &f.HotStandbyFeedback, &statusInterval, &f.PrimarySlotName, &f.SyncReplicationSlots,
		&f.MaxReplicationSlots, &idleTimeout, &applyDelay, &plugins, &f.ReplayPaused, &timeline, &f.dataDirectory)
	if err != nil {
		return f, fmt.Errorf("read the standby's state: %w", err)
	}
	f.SystemIdentifier = uint64(sysid)
	f.ReceivedTLI, f.Timeline = uint32(tli), uint32(timeline)
	f.WALReceiverStatusInterval = seconds(statusInterval)
	f.IdleSlotTimeout = seconds(idleTimeout)
	f.ApplyDelay = seconds(applyDelay)
	if plugins != nil {
		f.OutputPlugins = slotcatalog.SplitPluginList(*plugins)
	}
	if f.Replay, err = protocol.ParseLSN(replay); err != nil {
		return f, fmt.Errorf("read the standby's replay position: %w", err)
	}
	if f.Receive, err = protocol.ParseLSN(receive); err != nil {
		return f, fmt.Errorf("read the standby's receive position: %w", err)
	}
	f.Slots, err = slotcatalog.Read(ctx, conn)
	sortSlots(f.Slots)
	return f, err
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
