import LiveActivity
import Testbed
import Testing

@testable import CausewayConfiguration

@Suite("Policies", .ownThread)
struct PolicyTests {
    @Test func `The policy default exists without being written, and every app has it`() throws {
        let configuration = try load(smallestFile)
        #expect(configuration.policies == [Policy(name: "default")])
        #expect(configuration.apps[0].policy == "default")
    }

    @Test func `Every number reaches its policy, and the rest has the built-in default`() throws {
        for key in ConfigurationSchema.policySectionKeys {
            guard case .integer(let range) = key.valueKind else {
                #expect(["oversize", "afterLifetime"].contains(key.name), "\(key.name) is no number")
                continue
            }
            // One above the lower bound: no key has this default, and the value conflicts with no other key.
            let value = range.lowerBound + 1
            let path = key.name.split(separator: ".")
            let body = path.count == 1 ? "\(path[0]): \(value)" : "\(path[0]): {\(path[1]): \(value)}"
            var text = smallestFile + "policies:\n  default: {startBudget: {pushes: 7}}\n  odd: {\(body)"
            // The reserve for alerts must fit into the budget. This budget is smaller than the default reserve, so the
            // reserve is 0.
            if path.count == 2, path[1] == "pushes", path[0] != "startBudget" {
                text.removeLast(1)
                text += ", reservedForAlerts: 0}"
            }
            let policies = try load(text + "}\n").policies
            #expect(policies.map(\.name) == ["default", "odd"])
            #expect(key.yamlText(policies[1]) == "\(value)", "\(key.name)")
            #expect(key.yamlText(policies[1]) != key.yamlText(Policy(name: "x")), "\(key.name)")
            for other in ConfigurationSchema.policySectionKeys
            where other.name != key.name && !other.name.hasSuffix("reservedForAlerts") {
                #expect(other.yamlText(policies[1]) == other.yamlText(Policy(name: "x")), "\(key.name), \(other.name)")
            }
            #expect(policies[0].startBudget.pushes == 7)
        }
    }

    @Test func `The key oversize is an ordered list of field names`() throws {
        let policies = try load(smallestFile + "policies:\n  odd: {oversize: [lineups, match.commentary]}\n").policies
        #expect(policies.map(\.oversize) == [[], ["lineups", "match.commentary"]])
        let variable = try load(smallestFile, environment: ["CAUSEWAY_POLICIES_DEFAULT_OVERSIZE": "b, a"])
        #expect(variable.policies[0].oversize == ["b", "a"])
        let tooManyNames = (1...9).map { "f\($0)" }.joined(separator: ", ")
        for (list, fault) in [("a..b", "is not a field's name"), (tooManyNames, "has 9 fields, at most 8 are allowed")]
        {
            let foundFaults = faults(of: smallestFile + "policies:\n  odd: {oversize: [\(list)]}\n")
            #expect(foundFaults.count == 1 && foundFaults.first?.contains(fault) == true, "\(foundFaults)")
        }
    }

    @Test func `The key afterLifetime needs a lifetime`() throws {
        let text = smallestFile + "policies:\n  odd: {afterLifetime: restart, lifetimeSeconds: 300}\n"
        #expect(try load(text).policies.map(\.afterLifetime) == [.end, .restart])
        let foundFaults = faults(of: smallestFile + "policies:\n  odd: {afterLifetime: restart}\n")
        #expect(
            foundFaults.count == 1 && foundFaults.first?.contains("needs lifetimeSeconds above 0") == true,
            "\(foundFaults)"
        )
    }

    @Test func `Variables reach the numbers of policies with any name, written in the file or not`() throws {
        let configuration = try load(
            smallestFile + "policies:\n  cricketT20-fast_one: {budget: {pushes: 30}}\n",
            environment: [
                "CAUSEWAY_POLICIES": "sports, courier",
                "CAUSEWAY_POLICIES_DEFAULT_SPACING_MILLISECONDS": "2000",
                "CAUSEWAY_POLICIES_SPORTS_FREQUENT_BUDGET_RESERVED_FOR_ALERTS": "0",
                "CAUSEWAY_POLICIES_CRICKET_T20_FAST_ONE_BUDGET_PUSHES": "31",
                "CAUSEWAY_APPS_MATCH_POLICY": "sports",
            ]
        )
        #expect(configuration.policies.map(\.name) == ["default", "courier", "cricketT20-fast_one", "sports"])
        #expect(configuration.policies[0].spacingMilliseconds == 2_000)
        #expect(configuration.policies[1] == Policy(name: "courier"))
        #expect(configuration.policies[2].budget.pushes == 31)
        #expect(configuration.policies[3].frequentBudget.reservedForAlerts == 0)
        #expect(configuration.apps[0].policy == "sports")
    }

    @Test(arguments: [
        (
            "spacingMilliseconds: 999",
            "c.yaml:13:26: policies.fast.spacingMilliseconds: 999 is not in 1000...3600000"
        ),
        ("budget: {pushes: 0}", "c.yaml:13:22: policies.fast.budget.pushes: 0 is not in 1...10000"),
        (
            "budget: {pushes: 10, reservedForAlerts: 11}",
            "c.yaml:13:45: policies.fast.budget.reservedForAlerts: 11 is more than budget.pushes, which is 10"
        ),
        (
            "budget: {pushes: 4}",
            "c.yaml:13:22: policies.fast.budget.pushes: 4 is less than budget.reservedForAlerts, which is 5"
        ),
        (
            "frequentBudget: {reservedForAlerts: 201}",
            "c.yaml:13:41: policies.fast.frequentBudget.reservedForAlerts: 201 is more than frequentBudget.pushes, which is 200"
        ),
        (
            "spacingMilliseconds: 60001",
            "c.yaml:13:26: policies.fast.spacingMilliseconds: 60001 is more than throttledSpacingMillisecondsMax, which is 60000"
        ),
        (
            "throttledSpacingMillisecondsMax: 1000\n    spacingMilliseconds: 1001",
            "c.yaml:14:26: policies.fast.spacingMilliseconds: 1001 is more than throttledSpacingMillisecondsMax, which is 1000"
        ),
        (
            "expiration: {updateSeconds: 43201}",
            "c.yaml:13:33: policies.fast.expiration.updateSeconds: 43201 is not in 1...43200"
        ),
        (
            "startBudget: {reservedForAlerts: 1}",
            "c.yaml:13:19: policies.fast.startBudget.reservedForAlerts: is not a key"
        ),
        ("budged: {}", "c.yaml:13:5: policies.fast.budged: is not a key; did you mean budget?"),
        ("budget: 5", "c.yaml:13:13: policies.fast.budget: is a section: indent its keys below it"),
    ])
    func `Each fault is reported with its place and its reason`(yaml: String, line: String) {
        #expect(faults(of: smallestFile + "policies:\n  fast:\n    \(yaml)\n") == [line])
    }

    @Test(arguments: [
        (
            "policies: {'a b': {}}\n",
            "c.yaml:11:12: policies.a b: a policy's name is 1 to 64 letters, digits, '-' and '_'"
        ),
        (
            "policies: {a.b: {}}\n",
            "c.yaml:11:12: policies.a.b: a policy's name is 1 to 64 letters, digits, '-' and '_'"
        ),
        ("policies: 5\n", "c.yaml:11:11: policies: is a section: indent its keys below it"),
        (
            "    policy: sport\npolicies: {sports: {}}\n",
            "c.yaml:11:13: apps.match.policy: sport is not in policies; did you mean sports?"
        ),
        ("    policy: fast\n", "c.yaml:11:13: apps.match.policy: fast is not in policies"),
        (
            "    policy: a/b\n",
            "c.yaml:11:13: apps.match.policy: a policy's name is 1 to 64 letters, digits, '-' and '_'"
        ),
        (
            "policies: {a-b: {}, a_b: {}}\n",
            "c.yaml:11:21: policies.a_b: has the same environment variables as a-b"
        ),
        (
            "policies: {live: {}, live-start: {}}\n",
            "c.yaml:11:22: policies.live-start: has the same environment variables as live"
        ),
    ])
    func `An invalid name of a policy, and an app's unknown policy, are faults`(yaml: String, line: String) {
        #expect(faults(of: smallestFile + yaml) == [line])
    }

    @Test func `Too many policies are a fault`() {
        func configurationText(_ count: Int) -> String {
            smallestFile + "policies: {\((0..<count).map { "p\($0): {}" }.joined(separator: ", "))}\n"
        }
        #expect(faults(of: configurationText(63)).isEmpty)
        #expect(
            faults(of: configurationText(64)) == [
                "c.yaml: policies: must have 1 to 64 policies (or CAUSEWAY_POLICIES in the environment)"
            ]
        )
    }
}
