/// Counters of one app for its metrics. They only grow.
public struct AppCounters: Sendable, Equatable {
    /// Commands that another command of their activity replaced in the lane, nearly always before Redis was asked about
    /// them. A second record of a command that the lane already has counts too.
    public var replacedCommandCount: UInt64 = 0
    /// Superseded commands that get no result of their own, because the commands that replaced them count them.
    public var supersededWithoutResultCount: UInt64 = 0
    /// How often a start found its device's budget empty.
    public var startBudgetWaitCount: UInt64 = 0
    /// Commands that no phone could decode: rejected ones, and those that were not rejected because the configuration
    /// of their app asks only for warnings.
    public var undecodableCommandCount: UInt64 = 0
    /// Commands that lost fields because their body was too large.
    public var bodyWithDroppedFieldsCount: UInt64 = 0
}

extension Delivery {
    public func counters(of appIndex: Int) -> AppCounters { countersByApp[appIndex] }

    /// Changes the counters of the record's app. Does nothing if the record has no configured app: such a record counts
    /// for no app.
    @inline(__always)
    private mutating func changeCounters(of record: RecordIndex, _ change: (inout AppCounters) -> Void) {
        guard let appIndex = records[record].configuredAppIndex else { return }
        change(&countersByApp[Int(appIndex)])
    }

    mutating func countReplacedCommand(of record: RecordIndex) {
        changeCounters(of: record) { $0.replacedCommandCount &+= 1 }
    }

    mutating func countSupersededWithoutResult(of record: RecordIndex) {
        changeCounters(of: record) { $0.supersededWithoutResultCount &+= 1 }
    }

    mutating func countStartBudgetWait(of record: RecordIndex) {
        changeCounters(of: record) { $0.startBudgetWaitCount &+= 1 }
    }

    mutating func countUndecodableCommand(_ appIndex: UInt16) {
        countersByApp[Int(appIndex)].undecodableCommandCount &+= 1
    }

    mutating func countBodyWithDroppedFields(of record: RecordIndex) {
        changeCounters(of: record) { $0.bodyWithDroppedFieldsCount &+= 1 }
    }
}
