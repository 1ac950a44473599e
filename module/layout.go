package main

// #include "emq.h"
import "C"

import (
	"unsafe"

	"emq/commands"
)

// Request and Outcome of package commands and their C mirrors are one and the same memory. Each line below fails to
// compile where a place, a size or a number differs.
var (
	same [1]struct{}

	goR commands.Request
	cR  C.emq_request
	_   = same[unsafe.Sizeof(goR)-unsafe.Sizeof(cR)]
	_   = same[unsafe.Offsetof(goR.Entry)-unsafe.Offsetof(cR.entry)]
	_   = same[unsafe.Offsetof(goR.Identity)-unsafe.Offsetof(cR.identity)]
	_   = same[unsafe.Offsetof(goR.Epoch)-unsafe.Offsetof(cR.epoch)]
	_   = same[unsafe.Offsetof(goR.Row)-unsafe.Offsetof(cR.row)]
	_   = same[unsafe.Offsetof(goR.Count)-unsafe.Offsetof(cR.count)]
	_   = same[unsafe.Offsetof(goR.Now)-unsafe.Offsetof(cR.now)]
	_   = same[unsafe.Offsetof(goR.Deadline)-unsafe.Offsetof(cR.deadline)]
	_   = same[unsafe.Offsetof(goR.ServedSince)-unsafe.Offsetof(cR.served_since)]
	_   = same[unsafe.Offsetof(goR.Figures)-unsafe.Offsetof(cR.figures)]
	_   = same[unsafe.Offsetof(goR.ScannedTo)-unsafe.Offsetof(cR.scanned_to)]
	_   = same[unsafe.Offsetof(goR.Step)-unsafe.Offsetof(cR.step)]
	_   = same[unsafe.Offsetof(goR.Slice)-unsafe.Offsetof(cR.slice)]
	_   = same[unsafe.Offsetof(goR.Tally)-unsafe.Offsetof(cR.tally)]
	_   = same[unsafe.Offsetof(goR.Argc)-unsafe.Offsetof(cR.argc)]
	_   = same[unsafe.Offsetof(goR.Present)-unsafe.Offsetof(cR.present)]
	_   = same[unsafe.Offsetof(goR.Types)-unsafe.Offsetof(cR.types)]
	_   = same[unsafe.Offsetof(goR.IdentityType)-unsafe.Offsetof(cR.identity_type)]
	_   = same[unsafe.Offsetof(goR.Replica)-unsafe.Offsetof(cR.replica)]
	_   = same[unsafe.Offsetof(goR.HasEntry)-unsafe.Offsetof(cR.has_entry)]
	_   = same[unsafe.Offsetof(goR.HasCount)-unsafe.Offsetof(cR.has_count)]
	_   = same[unsafe.Offsetof(goR.Looked)-unsafe.Offsetof(cR.looked)]
	_   = same[unsafe.Offsetof(goR.Member)-unsafe.Offsetof(cR.member)]
	_   = same[unsafe.Offsetof(goR.Scanned)-unsafe.Offsetof(cR.scanned)]

	goF commands.Figures
	cF  C.emq_figures
	_   = same[unsafe.Sizeof(goF)-unsafe.Sizeof(cF)]
	_   = same[unsafe.Offsetof(goF.Next)-unsafe.Offsetof(cF.next)]
	_   = same[unsafe.Offsetof(goF.Counts)-unsafe.Offsetof(cF.counts)]

	goS commands.Scan
	cS  C.emq_scan
	_   = same[unsafe.Sizeof(goS)-unsafe.Sizeof(cS)]
	_   = same[unsafe.Offsetof(goS.Key)-unsafe.Offsetof(cS.key)]

	goN commands.Finding
	cN  C.emq_finding
	_   = same[unsafe.Sizeof(goN)-unsafe.Sizeof(cN)]
	_   = same[unsafe.Offsetof(goN.Where)-unsafe.Offsetof(cN.where)]
	_   = same[unsafe.Offsetof(goN.Remedy)-unsafe.Offsetof(cN.remedy)]
	_   = same[unsafe.Offsetof(goN.Applied)-unsafe.Offsetof(cN.applied)]

	goT commands.Tally
	cT  C.emq_tally
	_   = same[unsafe.Sizeof(goT)-unsafe.Sizeof(cT)]
	_   = same[unsafe.Offsetof(goT.Taken)-unsafe.Offsetof(cT.taken)]
	_   = same[unsafe.Offsetof(goT.Moved)-unsafe.Offsetof(cT.moved)]
	_   = same[unsafe.Offsetof(goT.Counted)-unsafe.Offsetof(cT.counted)]

	goE commands.Effect
	cE  C.emq_effect
	_   = same[unsafe.Sizeof(goE)-unsafe.Sizeof(cE)]
	_   = same[unsafe.Offsetof(goE.Score)-unsafe.Offsetof(cE.score)]
	_   = same[unsafe.Offsetof(goE.Fields)-unsafe.Offsetof(cE.fields)]
	_   = same[unsafe.Offsetof(goE.Op)-unsafe.Offsetof(cE.op)]
	_   = same[unsafe.Offsetof(goE.Key)-unsafe.Offsetof(cE.key)]
	_   = same[unsafe.Offsetof(goE.Else)-unsafe.Offsetof(cE.or_else)]
	_   = same[unsafe.Offsetof(goE.N)-unsafe.Offsetof(cE.n)]
	_   = same[unsafe.Sizeof(commands.Value{})-unsafe.Sizeof(C.emq_value{})]

	goO commands.Outcome
	cO  C.emq_outcome
	_   = same[unsafe.Sizeof(goO)-unsafe.Sizeof(cO)]
	_   = same[unsafe.Offsetof(goO.Reply)-unsafe.Offsetof(cO.reply)]
	_   = same[unsafe.Offsetof(goO.NumEffects)-unsafe.Offsetof(cO.num_effects)]
	_   = same[unsafe.Offsetof(goO.TextLen)-unsafe.Offsetof(cO.text_len)]
	_   = same[unsafe.Offsetof(goO.Refusal)-unsafe.Offsetof(cO.refusal)]
	_   = same[unsafe.Offsetof(goO.Next)-unsafe.Offsetof(cO.next)]
	_   = same[unsafe.Offsetof(goO.Fate)-unsafe.Offsetof(cO.fate)]
	_   = same[unsafe.Offsetof(goO.Result)-unsafe.Offsetof(cO.result)]
	_   = same[unsafe.Offsetof(goO.Finding)-unsafe.Offsetof(cO.finding)]
	_   = same[unsafe.Offsetof(goO.Tally)-unsafe.Offsetof(cO.tally)]
	_   = same[unsafe.Offsetof(goO.Scan)-unsafe.Offsetof(cO.scan)]
	_   = same[unsafe.Offsetof(goO.Numbers)-unsafe.Offsetof(cO.numbers)]
	_   = same[unsafe.Offsetof(goO.Text)-unsafe.Offsetof(cO.text)]

	_ = same[commands.VersionNumber-C.EMQ_VERSION]
	_ = same[commands.MaxArgs-C.EMQ_MAX_ARGS]
	_ = same[commands.MaxFields-C.EMQ_MAX_FIELDS]
	_ = same[commands.MaxEffects-C.EMQ_MAX_EFFECTS]
	_ = same[commands.MaxText-C.EMQ_MAX_TEXT]
	_ = same[commands.KeyRow-C.EMQ_ROW]
	_ = same[commands.KeyPending-C.EMQ_PENDING]
	_ = same[commands.KeyActive-C.EMQ_ACTIVE]
	_ = same[commands.KeySchedule-C.EMQ_SCHEDULE]
	_ = same[commands.KeyDead-C.EMQ_DEAD]
	_ = same[commands.KeyCompleted-C.EMQ_COMPLETED]
	_ = same[commands.KeyFailed-C.EMQ_FAILED]
	_ = same[commands.NumKeys-C.EMQ_NUM_KEYS]
	_ = same[commands.NoKey-C.EMQ_NO_KEY]
	_ = same[commands.FieldPayload-C.EMQ_FIELD_PAYLOAD]
	_ = same[commands.FieldCount-C.EMQ_FIELD_COUNT]
	_ = same[commands.NumFields-C.EMQ_NUM_FIELDS]
	_ = same[commands.ConstZero-C.EMQ_CONST_ZERO]
	_ = same[commands.ConstOne-C.EMQ_CONST_ONE]
	_ = same[commands.NumConsts-C.EMQ_NUM_CONSTS]
	_ = same[commands.OpSet-C.EMQ_OP_SET]
	_ = same[commands.OpHSet-C.EMQ_OP_HSET]
	_ = same[commands.OpHDel-C.EMQ_OP_HDEL]
	_ = same[commands.OpZAdd-C.EMQ_OP_ZADD]
	_ = same[commands.OpZRem-C.EMQ_OP_ZREM]
	_ = same[commands.OpDel-C.EMQ_OP_DEL]
	_ = same[commands.OpHIncrBy-C.EMQ_OP_HINCRBY]
	_ = same[commands.ValueConst-C.EMQ_VALUE_CONST]
	_ = same[commands.ValueArg-C.EMQ_VALUE_ARG]
	_ = same[commands.ValueInt-C.EMQ_VALUE_INT]
	_ = same[commands.ValueEpoch-C.EMQ_VALUE_EPOCH]
	_ = same[commands.ReplyInteger-C.EMQ_REPLY_INTEGER]
	_ = same[commands.ReplyConst-C.EMQ_REPLY_CONST]
	_ = same[commands.ReplyJob-C.EMQ_REPLY_JOB]
	_ = same[commands.ReplyEmpty-C.EMQ_REPLY_EMPTY]
	_ = same[commands.ReplyReaped-C.EMQ_REPLY_REAPED]
	_ = same[commands.ReplyNumbers-C.EMQ_REPLY_NUMBERS]
	_ = same[commands.ReplyAudit-C.EMQ_REPLY_AUDIT]
	_ = same[commands.MaxNumbers-C.EMQ_MAX_NUMBERS]
	_ = same[commands.NoNumber-C.EMQ_NO_NUMBER]
	_ = same[commands.NumWords-C.EMQ_NUM_WORDS]
	_ = same[commands.AuditCount-C.EMQ_AUDIT_COUNT]
	_ = same[commands.NoFate-C.EMQ_NO_FATE]
	_ = same[commands.Dropped-C.EMQ_DROPPED]
	_ = same[commands.Left-C.EMQ_LEFT]
	_ = same[commands.Returned-C.EMQ_RETURNED]
	_ = same[commands.Stalled-C.EMQ_STALLED]
	_ = same[commands.Buried-C.EMQ_BURIED]
	_ = same[commands.Reported-C.EMQ_REPORTED]
	_ = same[commands.Repaired-C.EMQ_REPAIRED]
	_ = same[commands.NumFates-C.EMQ_NUM_FATES]
	_ = same[commands.Finish-C.EMQ_FINISH]
	_ = same[commands.NextEntry-C.EMQ_NEXT_ENTRY]
	_ = same[commands.Look-C.EMQ_LOOK]
	_ = same[commands.MakeScan-C.EMQ_MAKE_SCAN]
	_ = same[commands.HostPanicked-C.EMQ_TEXT_PANICKED]
	_ = same[commands.HostUnclaimed-C.EMQ_TEXT_UNCLAIMED]
	_ = same[commands.HostForked-C.EMQ_TEXT_FORKED]
	_ = same[commands.HostUnscanned-C.EMQ_TEXT_UNSCANNED]
	_ = same[commands.NumHostTexts-C.EMQ_NUM_TEXTS]
	_ = same[commands.NumResults-C.EMQ_NUM_RESULTS]
	_ = same[commands.Promote-C.EMQ_VERB_PROMOTE]
	_ = same[commands.Reap-C.EMQ_VERB_REAP]
	_ = same[commands.Unread-C.EMQ_UNREAD]
	_ = same[commands.None-C.EMQ_NONE]
	_ = same[commands.String-C.EMQ_STRING]
)
