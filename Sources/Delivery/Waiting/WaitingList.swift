/// The commands of one activity that wait in the lane. The first one is admitted next. For each life of the activity,
/// there is usually at most a start, an update and an end. (R12)
///
/// Each command's slot has the link to the next command.
struct WaitingList: BitwiseCopyable {
    /// The link from a record to the next one in its list. `next` is `.null` if the record is the last one, or in no
    /// list.
    struct Link: BitwiseCopyable {
        fileprivate var next = RecordIndex.null
    }

    // The first and the last waiting record; `.null` if none waits. Use `head` and `tail`, which are nil then. Only the
    // hot path reads these two, where an optional would cost a test for each command: a prefetch takes `.null` too, and
    // a command begins only if one waits. The last record is stored because `merge` usually compares a new command only
    // with it.
    private(set) var headOrNull = RecordIndex.null
    private(set) var tailOrNull = RecordIndex.null

    var isEmpty: Bool { headOrNull == .null }
    var head: RecordIndex? { headOrNull == .null ? nil : headOrNull }
    var tail: RecordIndex? { tailOrNull == .null ? nil : tailOrNull }

    // `append`, `prepend`, `insert` and `replaceLast` give the added record the stage `waiting`. A record that is
    // removed keeps this stage, so the caller must give it another stage at once, or put it back into the list.

    mutating func append(_ record: RecordIndex, in records: inout Records) {
        records.enter(record, .waiting)
        putBackLast(record, in: &records)
    }

    /// Adds a record at the end. Its stage must be `waiting` already, for example because it was just removed from a
    /// list.
    mutating func putBackLast(_ record: RecordIndex, in records: inout Records) {
        precondition(records[record].stage == .waiting, "only a waiting record is in a list")
        records[record].waitingLink.next = .null
        if isEmpty { headOrNull = record } else { records[tailOrNull].waitingLink.next = record }
        tailOrNull = record
    }

    mutating func prepend(_ record: RecordIndex, in records: inout Records) {
        records.enter(record, .waiting)
        records[record].waitingLink.next = headOrNull
        if isEmpty { tailOrNull = record }
        headOrNull = record
    }

    /// Adds a record before `next`, which must be in the list.
    mutating func insert(_ record: RecordIndex, before next: RecordIndex, in records: inout Records) {
        guard let previous = predecessor(of: next, in: records) else { return prepend(record, in: &records) }
        records.enter(record, .waiting)
        records[record].waitingLink.next = next
        records[previous].waitingLink.next = record
    }

    mutating func popFirst(in records: inout Records) -> RecordIndex? {
        guard !isEmpty else { return nil }
        let record = headOrNull
        remove(record, in: &records)
        return record
    }

    /// Returns the record before `record`, which must be in the list; nil if `record` is the first.
    func predecessor(of record: RecordIndex, in records: borrowing Records) -> RecordIndex? {
        guard headOrNull != record else { return nil }
        var previous = headOrNull
        while records[previous].waitingLink.next != record { previous = records[previous].waitingLink.next }
        return previous
    }

    /// Returns the record after `record` in the list; nil if `record` is the last.
    func successor(of record: RecordIndex, in records: borrowing Records) -> RecordIndex? {
        let next = records[record].waitingLink.next
        return next == .null ? nil : next
    }

    /// Removes the last record, and adds another one at the end.
    mutating func replaceLast(by record: RecordIndex, in records: inout Records) {
        if headOrNull == tailOrNull { self = WaitingList() } else { remove(tailOrNull, in: &records) }
        append(record, in: &records)
    }

    mutating func remove(_ record: RecordIndex, in records: inout Records) {
        let next = records[record].waitingLink.next
        let previous = predecessor(of: record, in: records)
        if let previous { records[previous].waitingLink.next = next } else { headOrNull = next }
        if tailOrNull == record { tailOrNull = previous ?? .null }
        records[record].waitingLink.next = .null
    }
}
