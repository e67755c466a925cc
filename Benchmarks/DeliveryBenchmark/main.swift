import CAllocationCount
import Delivery
import Foundation

/// Measures the nanoseconds for one command, from its bytes to its settled offset: the best of nine measurements,
/// because other work on the machine only makes a measurement longer.
func measureNanoseconds(_ workload: Workload) -> Double {
    let core = CoreRun(workload)
    _ = core.run(workload, commands: 100_000)
    return (0..<9)
        .map { _ in
            var commands = 0
            let elapsed = ContinuousClock().measure { commands = core.run(workload, commands: 200_000) }
            let (seconds, attoseconds) = elapsed.components
            return Double(seconds * 1_000_000_000 + attoseconds / 1_000_000_000) / Double(commands)
        }
        .min() ?? 0
}

/// Counts the allocations for each command in the steady state. The difference between two runs of different lengths
/// leaves out what a run allocates once.
func measureAllocations(_ workload: Workload) -> Double {
    let core = CoreRun(workload)
    func countAllocations(_ commands: Int) -> (allocations: UInt64, commands: Int) {
        let allocationsBefore = CAllocationCount_total()
        let commandCount = core.run(workload, commands: commands)
        return (CAllocationCount_total() - allocationsBefore, commandCount)
    }
    _ = countAllocations(100_000)
    let shortRun = countAllocations(100_000)
    let longRun = countAllocations(200_000)
    return Double(Int64(longRun.allocations) - Int64(shortRun.allocations))
        / Double(longRun.commands - shortRun.commands)
}

func printTable() {
    print("one command, from its bytes to its settled offset, its result written")
    for workload in Workload.allCases {
        let sentText = String(format: "%5.0f %% sent", 100 / Double(workload.commandsPerActivity))
        let timeText = String(format: "%8.0f ns", measureNanoseconds(workload))
        let allocationText = String(format: "%8.2f allocations", measureAllocations(workload))
        let name = workload.rawValue.padding(toLength: 16, withPad: " ", startingAt: 0)
        print("  \(name)\(sentText)\(timeText)\(allocationText)")
    }
}

/// For `valgrind --tool=callgrind`: runs only the core, with a given number of commands. The difference between two
/// runs of different lengths does not contain the cost of starting. Valgrind 3.19 cannot read the debug information of
/// Swift 6.3, so run a copy of the program made with `strip -g`.
///
/// - Returns: false if the arguments are wrong.
func runRepeatedly(_ arguments: ArraySlice<String>) -> Bool {
    let words = Array(arguments)
    guard words.count == 2, let workload = Workload(rawValue: words[0]), let commands = Int(words[1]), commands > 0
    else { return false }
    let core = CoreRun(workload)
    let commandCount = core.run(workload, commands: commands)
    print("\(commandCount) commands, \(core.pushCount) pushes, \(core.resultBytes) bytes of results")
    return true
}

/// Whether the core allocates nothing in the steady state. The times vary from run to run, but the number of
/// allocations does not, so only this number can fail the check.
func checkAllocations() -> Bool {
    Workload.allCases.allSatisfy { workload in
        let allocationCount = measureAllocations(workload)
        if allocationCount != 0 {
            print("\(workload.rawValue): \(allocationCount) allocations for each command, 0 are allowed")
        }
        return allocationCount == 0
    }
}

switch CommandLine.arguments.dropFirst().first {
case nil:
    printTable()
case "check":
    exit(checkAllocations() ? 0 : 1)
case "repeat" where runRepeatedly(CommandLine.arguments.dropFirst(2)):
    break
default:
    print("usage: DeliveryBenchmark [check | repeat <workload> <commands>]")
    exit(2)
}
