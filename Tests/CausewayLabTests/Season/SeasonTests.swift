import Testbed
import Testing

@testable import CausewayLab

@Suite("The 2018 season", .ownThread)
struct SeasonTests {
    private let season: Season

    init() throws {
        season = try SeasonData.season.get()
    }

    @Test func `The feed has the expected counts`() {
        #expect(season.matches.count == 60)
        #expect(season.ballCount == 14_286)
        let steps = season.matches.map { $0.steps() }
        #expect(steps.reduce(0) { $0 + $1.count } == 14_286 + 60)
        // 720 wickets, 2,524 boundaries and 60 results have an alert. No ball is both a wicket and a boundary.
        #expect(steps.reduce(0) { $0 + $1.count { $0.alert != nil } } == 720 + 2_524 + 60)
    }

    @Test func `Every match ends as its file says`() throws {
        for match in season.matches {
            let steps = match.steps()
            let breakState = try #require(steps.last { $0.state.phase == .inningsBreak }).state
            let finalState = try #require(steps.last).state
            #expect(finalState.phase == .finished)
            #expect(finalState.result == match.resultLine)
            let chaserWon = match.winner == match.teams[1]
            switch match.margin {
            case .wickets(let count):
                #expect(chaserWon && 10 - finalState.wickets == count)
                #expect(match.chase.isTargetRevised || finalState.runs > breakState.runs)
            case .runs(let count):
                #expect(!chaserWon)
                let tyingRuns = match.chase.isTargetRevised ? try #require(match.chase.target) - 1 : breakState.runs
                #expect(tyingRuns - finalState.runs == count)
            }
            if let chase = finalState.chase { #expect((chase.runsNeeded == 0) == chaserWon) }
        }
    }

    @Test func `Rain changed three matches`() {
        let revisedMatches = season.matches.filter(\.chase.isTargetRevised)
        #expect(revisedMatches.map(\.identifier) == ["1136566", "1136578", "1136592"])
        #expect(revisedMatches.map(\.chase.target) == [71, nil, 151])
        #expect(revisedMatches.map(\.chase.balls) == [36, nil, 72])
    }

    @Test func `Every over that was finished has six legal balls`() {
        for match in season.matches {
            for innings in 0...1 {
                let balls = match.balls.filter { $0.innings == innings }
                let lastOver = balls.last?.over ?? 0
                for over in 0..<lastOver {
                    let legalBallCount = balls.count { $0.over == over && $0.legality == .legal }
                    // An umpire counted wrongly, so the season's files have an over of seven balls without an
                    // extra.
                    #expect(
                        legalBallCount == 6
                            || (legalBallCount == 7 && balls.allSatisfy { $0.over != over || $0.extraRuns == 0 })
                    )
                }
                #expect(balls.count { $0.over == lastOver && $0.legality == .legal } <= 6)
            }
        }
    }

    @Test func `The opening match has the expected steps`() throws {
        let match = try #require(season.matches.first)
        let steps = match.steps()
        let openingStep = match.openingStep
        #expect(
            openingStep.state.phase == .upcoming && openingStep.alert?.title == "Mumbai Indians v Chennai Super Kings"
        )
        #expect(steps[121].state.score == "MI 165/4 (20)")
        #expect(steps[121].state.phase == .inningsBreak)
        let chase = try #require(steps[122].state.chase)
        #expect(chase.target == 166)
        let lastStep = try #require(steps.last)
        #expect(lastStep.state.score == "CSK 169/9 (19.5)")
        #expect(lastStep.state.striker?.name == "KM Jadhav" && lastStep.state.striker?.runs == 24)
        #expect(lastStep.state.thisOver == ". . . 6 4")
        #expect(lastStep.state.firstInnings == "MI 165/4 (20)")
        #expect(lastStep.alert?.title == "Chennai Super Kings won by 1 wicket")
        #expect(lastStep.alert?.body.hasSuffix("Player of the match: DJ Bravo") == true)
    }

    @Test func `Runs and wickets never fall within an innings`() {
        for match in season.matches {
            var previousState = match.openingStep.state
            for step in match.steps() {
                if step.state.innings == previousState.innings {
                    #expect(step.state.runs >= previousState.runs && step.state.wickets >= previousState.wickets)
                }
                previousState = step.state
            }
        }
    }

    @Test func `The content state is small`() {
        let sizes = season.matches.flatMap { $0.steps() }.map(\.state.json.count)
        #expect((300...700).contains(sizes.max() ?? 0))
    }
}
