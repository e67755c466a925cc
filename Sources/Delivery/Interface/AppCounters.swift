/// Counters of one app for its metrics. They only grow.
public struct AppCounters: Sendable, Equatable {
    /// Commands that another command of their activity replaced in the lane, nearly always before Redis was asked about
    /// them. A second record of a command that the lane already has counts too.
    public var replacedCommandCount: UInt64 = 0
    /// Superseded commands without a result of their own: the commands that replaced them count them.
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

    mutating func countReplacedCommand(of record: RecordIndex) {
        countersByApp[Int(records[record].appIndex)].replacedCommandCount &+= 1
    }

    mutating func countSupersededWithoutResult(of record: RecordIndex) {
        countersByApp[Int(records[record].appIndex)].supersededWithoutResultCount &+= 1
    }

    mutating func countStartBudgetWait(of record: RecordIndex) {
        countersByApp[Int(records[record].appIndex)].startBudgetWaitCount &+= 1
    }

    mutating func countUndecodableCommand(_ appIndex: UInt16) {
        countersByApp[Int(appIndex)].undecodableCommandCount &+= 1
    }

    mutating func countBodyWithDroppedFields(of record: RecordIndex) {
        countersByApp[Int(records[record].appIndex)].bodyWithDroppedFieldsCount &+= 1
    }
}
